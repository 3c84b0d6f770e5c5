# Only whole aligned 2 MiB inside one area can be huge; heads and tails are no fallbacks.
title "Huge pages expected, half are base: alignment"
source "numactl/numactl#177, jemalloc/jemalloc#2099"
note "The report's addresses lie beyond the 47 bits of x86-64; the case has the same offset in 2 MiB (0x129000)."
set transparent_hugepage.enabled madvise

A = mmap 16M at=ARENA+0x129000 flags=private,anon,fixed
madvise A 16M hugepage
mark
touch A..A+16M write
expect faults.huge == 7
expect faults.base == 512
expect pages.huge(A, 215*4096) == 0
expect pages.huge(A+16M-297*4096, 297*4096) == 0
expect smaps.AnonHugePages(A) == 14M
expect vmstat.thp_fault_fallback == 0
expect vmstat.quire_thp_ineligible_alignment == 2
expect vmstat.quire_thp_ineligible_small == 0
munmap A 16M

# 1,000 maps of 3 MiB with 4 KiB between them: an aligned range in 502.
for i in 0..999 {
	B[i] = mmap 3M at=ARENA+1G+i*(3M+4K) flags=private,anon,fixed
	madvise B[i] 3M hugepage
}
mark
for i in 0..999 { touch B[i]..B[i]+3M write }
expect faults.huge == 502
expect smaps.AnonHugePages == 502*2M
expect rss == 3000M
expect smaps.AnonHugePages*1000/rss == 334
expect vmstat.thp_fault_fallback == 0
report "on huge pages" smaps.AnonHugePages*1000/rss "per mille" "507 of a process of 150 GB"
report "ranges at an area's edge" vmstat.quire_thp_ineligible_alignment ""
report "ranges of areas without an aligned one" vmstat.quire_thp_ineligible_small ""
