# In every pageblock one page cannot be moved: whatever is scanned, no huge page comes of it.
title "One unmovable page per block: seconds for one fault"
source "commit 75f30861a12a (mm, thp: avoid excessive compaction latency during fault)"
machine cloud-2cpu
note "1:4096 of the report: 16 pageblocks of 65,536, all of a zone of movable memory. In each 204 pages are free and 308 are a program's, of which one is pinned; all else is the kernel's. async: nobody asked for huge pages, so that a fault compacts without waiting; sync: they are advised. Deferral counts attempts, of which a request for an advised area makes two, and only those that wait end in it; so a pass comes with every 32nd request, not with every 64th."
set transparent_hugepage.enabled always
set quire.movablecore 32M
variant async { set transparent_hugepage.defrag always }
variant sync  { set transparent_hugepage.defrag always }
variant never { set transparent_hugepage.defrag never }

N = 16
A = mmap N*2M align=2M
B = mmap N*4K
madvise A N*2M nohugepage
fill A..A+N*2M step 1p 1
for i in 0..N-1 { mremap A+i*2M 4K 4K flags=maymove,fixed to=B+i*4K }
pin P B N*4K write
free_lists movable 0
free_lists dma32 0
free_lists normal 8000
for i in 0..N-1 { for j in 0..203 { madvise A+i*2M+4K+j*2*4K 4K dontneed } }

H = mmap 1000*2M align=2M
if variant.sync { madvise H 1000*2M hugepage }
mark
passes = 0
seen = 0
for i in 0..999 {
	write H+i*2M 1
	if vmstat.compact_migrate_scanned > seen { passes = passes+1 }
	seen = vmstat.compact_migrate_scanned
	# The page and its table make room for the next one.
	munmap H+i*2M 2M
}
expect vmstat.thp_fault_alloc == 0
expect vmstat.thp_fault_fallback == 1000
expect vmstat.compact_success == 0
expect vmstat.compact_fail == vmstat.compact_stall
expect[never] vmstat.compact_stall == 0
expect[never] vmstat.compact_migrate_scanned == 0
report "requests that scanned anything" passes "of 1000" "20 full attempts with deferral, 1,000 without"
report "scanned, in passes of the zone" (vmstat.compact_migrate_scanned+vmstat.compact_free_scanned)/(N*512) "" "33.5 M pages a fault without deferral"
report "in compaction, of the time in faults" phase_ns.compact*100/phase_ns.all "%"
report "a fault, mean" phase_ns.all/1000 "ns" "seconds, the longest"
for i in 0..N-1 { V = read B+i*4K; expect V == 1+i*512 }
