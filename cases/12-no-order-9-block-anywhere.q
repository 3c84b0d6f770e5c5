# The free lists of a desktop whose user waits for seconds: memory is free, but nowhere 2 MiB of it in one piece.
title "No order-9 block anywhere"
source "jj-vcs/jj#9708, microsoft/mimalloc#1323"
machine cloud-2cpu
note "Free lists as pasted. The engine has no zone DMA. 256 MiB of base pages of a program lie in the way and can be moved; all else is in use by the kernel."
set transparent_hugepage.enabled always
variant always        { set transparent_hugepage.defrag always }
variant defer         { set transparent_hugepage.defrag defer }
variant defer_madvise { set transparent_hugepage.defrag defer+madvise }
variant madvise       { set transparent_hugepage.defrag madvise }
variant never         { set transparent_hugepage.defrag never }

D = mmap 64M align=2M
madvise D 64M nohugepage
fill D..D+64M step 1p 1
free_lists dma32 8133,6637,1801,1627,2370,1518,571,204,16
free_lists normal 1696,4035,2173,641,98,9
expect zone.normal.free == 25442
expect zone.dma32.free == 194875
expect zone.normal.unusable(9) == 1000
expect zone.dma32.unusable(9) == 1000
report "fragmentation index of order 9, Normal, of 1000" zone.normal.extfrag(9) ""

A = mmap 32M align=2M
mark
touch A..A+32M write
if variant.always == 0 {
	expect vmstat.thp_fault_alloc == 0
	expect vmstat.thp_fault_fallback == 16
	expect vmstat.compact_stall == 0
	expect faults.base == 8192
	expect vmstat.pgmigrate_success == 0
	expect vmstat.compact_daemon_wake == 0
}
if variant.always {
	expect vmstat.compact_stall >= 1
	expect vmstat.pgmigrate_success > 0
	expect vmstat.compact_stall == vmstat.compact_success+vmstat.compact_fail
	expect vmstat.thp_fault_alloc+vmstat.thp_fault_fallback == 16
	expect vmstat.thp_fault_alloc == vmstat.compact_success
}
report "huge pages had" vmstat.thp_fault_alloc "of 16"
report "moved" vmstat.pgmigrate_success "pages"
report "scanned for pages to move" vmstat.compact_migrate_scanned "pages"
# kcompactd, where the faults have asked for it.
sleep 100
if variant.defer || variant.defer_madvise { expect vmstat.compact_daemon_wake >= 1; expect vmstat.compact_daemon_migrate_scanned > 0 }
if variant.never || variant.madvise { expect vmstat.compact_daemon_wake == 0 }
for i in 0..16383 { V = read D+i*1p; expect V == 1+i }
