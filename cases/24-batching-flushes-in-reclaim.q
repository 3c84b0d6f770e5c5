# Reclaim unmaps pages and flushes for each, or for a batch of them.
title "Batching flushes in reclaim"
source "linux-mm, RFC cover letter on batching reclaim TLB flushes, msg87192"
machine null
note "Pages of a file, mapped by an address space that four CPUs run. batch_1 and batch_32: MADV_PAGEOUT of so many pages a call, which unmaps and flushes as reclaim does. reclaim: what reclaim itself does, 32 at a time. At priority 12 it isolates a 4096th of the list at a time, 24 pages of 100,000 and fewer as the list gets shorter, so its batches are smaller than 32. several: mapped by three address spaces, each on a CPU of its own. Missing: 10 % dirty pages; there is no write-back of files. That no frame is used again before its flush is checked by the schedules of quire check, not here."
set transparent_hugepage.enabled never
variant batch_1  { }
variant batch_32 { }
variant reclaim  { }
variant several  { }

N = 100000
file create F N*4K
A = mmap N*4K prot=r flags=shared file=F
touch A..A+N*4K read
if variant.several {
	fork P
	fork Q
	proc P { cpu 1; touch A..A+N*4K read }
	proc Q { cpu 2; touch A..A+N*4K read }
}
if variant.several == 0 {
	thread B cpu=1
	thread C cpu=2
	thread D cpu=3
	thread B: touch A read
	thread C: touch A read
	thread D: touch A read
}
was = phys
mark
if variant.batch_1 { for i in 0..N-1 { madvise A+i*4K 4K pageout } }
if variant.batch_32 { for i in 0..N/32-1 { madvise A+i*32*4K 32*4K pageout } }
if variant.reclaim || variant.several { R = reclaim N }
L = vmstat.quire_flush_batch
I = vmstat.quire_ipi_batch
expect[batch_1] L == 100000
expect[batch_32] L == 3125
expect[batch_1] I == 300000
expect[batch_32] I == 9375
expect[batch_1] vmstat.quire_tlb_deferred == 100000
expect[batch_32] vmstat.quire_tlb_deferred == 100000
# Each batch is one flush of all CPUs that may know an entry of it: three others, or the two of the other address spaces, together.
expect[reclaim] I == 3*L
expect[several] I == 2*L
expect[several] vmstat.quire_tlb_deferred == 200000
expect was-phys == N*4K
report "pages to a flush" N/L "" "32"
report "other CPUs that took part" I "" "900,000 a second -> 60,000 a second"
report "besides, for the marks of use that MADV_PAGEOUT and reclaim take away" vmstat.nr_tlb_remote_flush_received-I ""
