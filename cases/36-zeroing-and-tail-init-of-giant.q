# Giant pages at three moments: descriptors at boot, clearing before or in the fault, populating in small or large units.
title "Zeroing and tail init of giant pages"
source "huge-page pre-zeroing mechanism, hugetlb: skip initialization of gigantic tail struct pages, spdk/spdk#2552"
note "(a) 1:8, 8 pages of 64; (b) 1:125, 4 of 500: descriptors of a page are whole; (c) 1:16, 1 GiB of 16. The report's 262,081 skipped a page are 262,144 less the 63 tails that stay; the head stays as well, so 262,080 are skipped."
variant in_fault     { set hugepages-1048576kB.nr_hugepages 8 }
variant ahead        { set hugepages-1048576kB.nr_hugepages 8 }
variant eight_ahead  { set hugepages-1048576kB.nr_hugepages 8 }
variant tails_all    { }
variant tails_kept   { }
variant tails_failed { }
variant populate_4k  { set transparent_hugepage.enabled never }
variant populate_2m  { set transparent_hugepage.enabled always }
G = 262144

# (a) What an idle worker cleared ahead is not cleared in the fault; a page that was used has to be cleared again.
if variant.in_fault {
	A = mmap 8G flags=private,anon,hugetlb,huge_1g
	mark
	fill A..A+8G step 1G 1
	expect vmstat.quire_pages_cleared == 8*G
	if time_ns > 0 { report "a first touch of 1 GiB" time_ns/8 "ns" "250 ms, 203 ms with faster clearing" }
}
if variant.ahead {
	C = clear_ahead 1G
	expect C == 8
	C = clear_ahead 1G
	expect C == 0
	A = mmap 8G flags=private,anon,hugetlb,huge_1g
	mark
	for i in 0..7 { V = read A+i*1G; expect V == 0 }
	fill A..A+8G step 1G 1
	expect vmstat.quire_pages_cleared == 0
	if time_ns > 0 { report "a first touch of 1 GiB" time_ns/8 "ns" "250 ms, 203 ms with faster clearing" }
	munmap A 8G
	mark
	B = mmap 8G flags=private,anon,hugetlb,huge_1g
	for i in 0..7 { V = read B+i*1G; expect V == 0 }
	expect vmstat.quire_pages_cleared == 8*G
}
if variant.eight_ahead {
	C = clear_ahead 1G pages=5
	expect C == 5
	A = mmap 8G flags=private,anon,hugetlb,huge_1g
	thread T1 cpu=1
	thread T2 cpu=2
	thread T3 cpu=3
	thread T4 cpu=4
	thread T5 cpu=5
	thread T6 cpu=6
	thread T7 cpu=7
	mark
	write A 1
	thread T1: write A+1G 2
	thread T2: write A+2G 3
	thread T3: write A+3G 4
	thread T4: write A+4G 5
	thread T5: write A+5G 6
	thread T6: write A+6G 7
	thread T7: write A+7G 8
	# Five were ready, three were not, whoever touched them.
	expect vmstat.quire_pages_cleared == 3*G
	for i in 0..7 { V = read A+i*1G; expect V == i+1 }
}

# (b) Descriptors of 4 giant pages besides 1 GiB of memory.
if variant.tails_all {
	boot 1G gigantic=4
	expect boot.gigantic == 4*G
}
if variant.tails_kept {
	boot 1G gigantic=4 tails=kept
	# One frame of descriptors a page: the head and 63 tails.
	expect boot.gigantic == 4*64
	expect 4*G-boot.gigantic == 4*262080
}
if variant.tails_failed {
	boot 1G gigantic=4 tails=failed
	expect boot.gigantic == 4*G
}
if boot.gigantic_ns > 0 {
	report "descriptors of a giant page" boot.gigantic_ns/4 "ns" "(3.90 s - 1.32 s) / 500 = 5,160,000 ns between all and kept"
}

# (c) The same bytes cleared, 512 times as many entries.
if variant.populate_4k || variant.populate_2m {
	mark
	A = mmap 1G align=2M flags=private,anon
	madvise A 1G populate_write
	expect[populate_4k] vmstat.quire_fault_anon_4k == 262144
	expect[populate_2m] vmstat.quire_fault_anon_2m == 512
	expect vmstat.quire_pages_cleared == 262144
	expect rss == 1G
	if time_ns > 0 { report "populated" 1024*1000/(time_ns/1000000) "MiB/s" "1.8 GiB/s" }
}
