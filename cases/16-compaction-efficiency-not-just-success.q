# Half of each block is free: how many huge pages come of it, and how much is scanned for each?
title "Compaction efficiency, not just success"
source "linux-mm, cover letter of a compaction series, msg169949"
machine cloud-2cpu
note "64 pageblocks, each with 256 free pages every second one; all else is the kernel's. One thread: scripts make one call at a time, so success by number of threads and a competing small allocation are not in it, and no block can be lost to one. Compared: a captured block handed to the request or put on the free lists. The free scanner is linear, there is no other; skip bits are always shared."
set transparent_hugepage.defrag always
set transparent_hugepage.enabled always
set quire.movablecore 128M
variant captured { set quire.compact_capture 1 }
variant returned { set quire.compact_capture 0 }

N = 64
A = mmap N*2M align=2M
madvise A N*2M nohugepage
fill A..A+N*2M step 1p 1
free_lists movable 0
free_lists dma32 0
free_lists normal 8000
for i in 0..N*256-1 { madvise A+i*2*4K 4K dontneed }
H = mmap N*2M align=2M
madvise H N*2M hugepage
mark
T = N/2
for i in 0..T-1 { write H+i*2M 1 }
S = vmstat.thp_fault_alloc
expect S+vmstat.thp_fault_fallback == T
expect vmstat.compact_success == S
expect vmstat.compact_stall == vmstat.compact_success+vmstat.compact_fail
expect vmstat.compact_isolated >= 2*vmstat.pgmigrate_success
report "huge pages had" S*100/T "%" "70.9 -> 98.3 % (3 threads), 81.7 -> 96.1 % (32)"
report "scanned for each" (vmstat.compact_migrate_scanned+vmstat.compact_free_scanned)/(S+1) "pages"
report "moved for each" vmstat.pgmigrate_success/(S+1) "pages"
report "a fault, mean" phase_ns.all/(faults.all+1) "ns"
report "in compaction, of the time in faults" phase_ns.compact*100/(phase_ns.all+1) "%"
for i in 0..N*256-1 { V = read A+i*2*4K+4K; expect V == 2+2*i }
