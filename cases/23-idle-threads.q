# A background thread maps, touches and unmaps a page; which CPUs does that reach?
title "Idle threads still get interrupted"
source "zeromq/libzmq#3331, golang/go#60735"
set transparent_hugepage.enabled never
variant spinning { }
variant asleep   { }
variant away     { }

# A neighbour keeps the page table, so that only the page itself goes.
K = mmap 8K at=ARENA flags=private,anon,fixed
touch K write
thread B cpu=1
thread C cpu=2
fork Q
fork R
proc Q { cpu 1; touch K read }
proc R { cpu 2; touch K read }
thread B: touch K read
thread C: touch K read
if variant.asleep { thread B: idle; thread C: idle }
if variant.away { proc Q: touch K read; proc R: touch K read }
mark
for i in 1..100 {
	mmap 4K at=ARENA+4K flags=private,anon,fixed
	touch ARENA+4K write
	munmap ARENA+4K 4K
}
expect vmstat.quire_flush_munmap == 100
expect vmstat.nr_tlb_local_flush_one == 100
expect vmstat.nr_tlb_local_flush_all == 0
expect[spinning] vmstat.nr_tlb_remote_flush == 100
expect[spinning] vmstat.nr_tlb_remote_flush_received == 200
expect[spinning] vmstat.quire_ipi_munmap == 200
expect[asleep] vmstat.nr_tlb_remote_flush_received == 0
expect[away] vmstat.nr_tlb_remote_flush_received == 0
# Back to the address space: what was missed is flushed then, once.
thread B: touch K read
thread C: touch K read
expect[spinning] vmstat.quire_flush_return == 0
expect[asleep] vmstat.quire_flush_return == 2
expect[away] vmstat.quire_flush_return == 2
