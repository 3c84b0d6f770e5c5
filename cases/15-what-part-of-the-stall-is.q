# Where a huge fault spends its time: nearly always clearing 2 MiB, and now and then making the block.
title "What part of the stall is zeroing?"
source "scylladb/scylladb#8828, scylladb/scylladb#7989, scylladb/seastar#1702, redpanda-data/redpanda#10418"
machine cloud-2cpu
note "1:10 of the report: 1,010 huge faults, of which 10 find no block and compact. prefaulted: another thread has touched the memory before. Parts are sums over faults; histograms are kept by kind of fault, not by part."
set transparent_hugepage.enabled always
set transparent_hugepage.defrag always
set quire.movablecore 128M
variant in_fault   { }
variant prefaulted { }

# 64 pageblocks of which every second page is free; all else is the kernel's. One block is made for a start.
N = 64
A = mmap N*2M align=2M
madvise A N*2M nohugepage
fill A..A+N*2M step 1p 1
free_lists movable 0
free_lists dma32 0
free_lists normal 8000
for i in 0..N*256-1 { madvise A+i*2*4K 4K dontneed }
X = mmap 2M align=2M
H = mmap 32M align=2M
madvise X 2M hugepage
madvise H 32M hugepage
write X 1
madvise X 2M dontneed
if variant.in_fault {
	mark
	all = phase_ns.all
	slow = 0
	compacting = 0
	cleared = 0
	clear = phase_ns.clear
	compacted = phase_ns.compact
	for r in 0..9 {
		# In the end somebody keeps a block: soon a fault finds none.
		for i in 0..100 {
			before = phase_ns.all
			was = phase_ns.clear
			stalls = vmstat.compact_stall
			if i == 99 { write H+r*2M 1 } else { write X 1 }
			if vmstat.compact_stall > stalls {
				slow = slow+phase_ns.all-before
				cleared = cleared+phase_ns.clear-was
				compacting = compacting+1
			}
			if i != 99 { madvise X 2M dontneed }
		}
	}
	expect vmstat.thp_fault_alloc == 1010
	expect faults.huge == 1010
	expect vmstat.compact_success == 10
	expect compacting == 10
	expect vmstat.compact_stall == 10
	expect phase_ns.wait+phase_ns.alloc+phase_ns.reclaim+phase_ns.compact+phase_ns.clear+phase_ns.copy+phase_ns.map == phase_ns.all
	report "clearing, a fault" (phase_ns.clear-clear)/1010 "ns" "about 1 ms for 2 MiB"
	report "clearing, a fault that compacts" cleared/10 "ns" "the same"
	report "compaction, a fault that compacts" (phase_ns.compact-compacted)/10 "ns"
	report "a fault that does not compact" (phase_ns.all-all-slow)/1000 "ns"
	report "a fault that compacts" slow/10 "ns" "100 to 2,000 ms"
}
if variant.prefaulted {
	thread B cpu=1
	thread B: touch H..H+20M step 2M write
	mark
	touch H..H+20M step 4K write
	expect faults.all == 0
	# 200 GiB would be this many.
	expect 200G/2M == 102400
	expect smaps.AnonHugePages == 20M
}
