# A reader of smaps looks at each entry of the last level, and at one where a huge page is.
title "Reading statistics stalls the process"
source "ncabatoff/process-exporter#246, DataDog/datadog-agent#41946, influxdata/telegraf#15295, Atoptool/atop#97, google/cadvisor#3670"
note "1:100 of the report's 210,410,600 kB: 1,027 ranges of 2 MiB. Missing: who waits for the reader's mmap_lock meanwhile, which needs calls that run side by side and a reader that takes the lock (the engine's own takes none), and per-VMA locks."
variant base { set transparent_hugepage.enabled never }
variant huge { set transparent_hugepage.enabled always }

# What an exec sets up has entries too.
E = smaps.entries
N = 1027
A = mmap N*2M align=2M
if variant.base { touch A..A+N*2M write }
if variant.huge { touch A..A+N*2M step 2M write }
expect smaps.Rss == N*2M
expect[base] smaps.entries-E == N*512
expect[huge] smaps.entries-E == N
# The counter itself is there without a look at any entry, and is the same.
expect rss == smaps.Rss
expect page_tables > 0
