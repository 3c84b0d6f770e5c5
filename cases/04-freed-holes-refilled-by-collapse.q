# What a program has freed comes back when huge pages are made around it.
title "Freed holes refilled by collapse"
source "gperftools/gperftools#1073"
note "1:16 of the report: 32,768 pages of which every 33rd stays, so 33 ranges of 2 MiB keep 16 and 31 keep 15."
machine cloud-2cpu
set transparent_hugepage.enabled never
variant none_0 { set transparent_hugepage.khugepaged.max_ptes_none 0 }
variant none_255 { set transparent_hugepage.khugepaged.max_ptes_none 255 }
variant none_495 { set transparent_hugepage.khugepaged.max_ptes_none 495 }
variant none_496 { set transparent_hugepage.khugepaged.max_ptes_none 496 }
variant none_497 { set transparent_hugepage.khugepaged.max_ptes_none 497 }
variant none_511 { set transparent_hugepage.khugepaged.max_ptes_none 511 }
variant never { set transparent_hugepage.khugepaged.max_ptes_none 511 }

P = 32768
A = mmap P*4096 align=2M
fill A..A+P*4096 step 1p 1
KEPT = (P+32)/33
for i in 0..KEPT-1 {
	hole = A + i*33*4096 + 4096
	if i < KEPT-1 { madvise hole 32p dontneed } else { madvise hole A+P*4096-hole dontneed }
}
expect rss == KEPT*4096
if variant.never == 0 { set transparent_hugepage.enabled always }
madvise A P*4096 hugepage
mark
K = khugepaged rounds=3

few = variant.none_0 + variant.none_255 + variant.none_495 + variant.never
if few { expect K == 0 && rss == KEPT*4096 }
expect[none_496] K == 33
expect[none_496] rss == KEPT*4096 + 33*496*4096
if variant.none_497 + variant.none_511 { expect K == 64 && rss == P*4096 }
expect vmstat.thp_collapse_alloc == K
expect smaps.AnonHugePages == K*2M
expect vmstat.quire_pages_cleared == K*512 - vmstat.quire_pages_copied
report "memory resident, of what is kept" rss*100/(KEPT*4096) "%" "2 GiB again where 62 MiB were kept (3300 %)"
for i in 0..KEPT-1 { V = read A+i*33*4096; expect V == 1+i*33 }
