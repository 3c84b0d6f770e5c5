# T threads in one address space, each over and over: touch 16 pages of its slot, give them back.
title "Throughput does not grow with threads"
source "bytecodealliance/wasmtime#4637, #5243, #8034, #5207, jemalloc/jemalloc#1422"
note "1:200 of the report: 50 rounds instead of 10,000; counts scale with them. All threads have the address space loaded before counting begins. Rates (110,000 runs with 1 thread, 120,000 with 3, 80,000 with 8) need calls that run side by side, which scripts do not have."
set transparent_hugepage.enabled never
variant t1       { }
variant t8       { }
variant t64      { }
variant separate { }
variant in_place { }
variant batch    { }

T = 8
if variant.t1 { T = 1 }
if variant.t64 { T = 64 }
I = 50
B = 1
if variant.batch { B = 10 }
A = mmap T*B*64K
K = mmap 4K
if variant.separate {
	for t in 0..T-1 { fork P[t]; proc P[t] { cpu t; touch K write } }
	mark
	for i in 1..I {
		for t in 0..T-1 {
			proc P[t] { touch A+t*64K..A+(t+1)*64K write; madvise A+t*64K 64K dontneed }
		}
	}
} else {
	for t in 0..T-1 { thread X[t] cpu=t; thread X[t]: touch A+t*B*64K read }
	madvise A T*B*64K dontneed
	mark
	for i in 1..I/B {
		for t in 0..T-1 {
			thread X[t] {
				touch A+t*B*64K..A+(t+1)*B*64K write
				if !variant.in_place { madvise A+t*B*64K B*64K dontneed }
			}
		}
	}
}
F = T*I*16
expect[t1] vmstat.nr_tlb_remote_flush_received == 0
expect[t8] vmstat.nr_tlb_remote_flush_received == T*I*(T-1)
expect[t64] vmstat.nr_tlb_remote_flush_received == T*I*(T-1)
expect[separate] vmstat.nr_tlb_remote_flush_received == 0
expect[in_place] vmstat.nr_tlb_remote_flush_received == 0
expect[batch] vmstat.nr_tlb_remote_flush_received == T*I*(T-1)/B
expect[t1] vmstat.pgfault == F
expect[t8] vmstat.pgfault == F
expect[t64] vmstat.pgfault == F
expect[separate] vmstat.pgfault == F
expect[in_place] vmstat.pgfault == T*16
expect[batch] vmstat.pgfault == F
if !variant.in_place { expect vmstat.quire_flush_madvise == T*I/B }
expect vmstat.quire_ipi_madvise == vmstat.nr_tlb_remote_flush_received
if variant.t8 { expect flushes.sent(3) == flushes.sent(4); expect flushes.received(3) == flushes.received(4) }
