title "Reading statistics stalls the process"
source "ncabatoff/process-exporter#246, DataDog/datadog-agent#41946, influxdata/telegraf#15295, Atoptool/atop#97, google/cadvisor#3670"
pending "a reader that walks under mmap_lock while others fault, and per-VMA locks"
