# Most of each huge page is given back, and not one frame comes back until the pages are split.
title "Memory charged but not in RSS: the deferred-split queue"
source "google/cadvisor#3587, omacom/omarchy#12514, commit 9a982250f773 (thp: introduce deferred_split_huge_page())"
note "Sizes as reported: rss 218,734,592 B, of it huge 109,051,904 B, usage 2,556,129,280 B, and 221,339,648 B after the split. The variant churn is 1:10 and never splits: the shrinker is told to skip."
set transparent_hugepage.enabled always
variant split { }
variant churn { }

if variant.split {
	N = 1218
	A = mmap N*2M align=2M
	for i in 0..51 { write A+i*2M 1+i }
	for i in 52..N-1 { fill A+i*2M..A+i*2M+23p step 1p 1+i*23 }
	expect rss == N*2M
	was = phys
	for i in 52..N-1 { madvise A+i*2M+23p 2M-23p dontneed }
	expect rss == 53442*4096
	expect rss == 218898432
	expect smaps.AnonHugePages == 109051904
	expect phys == 2554331136
	expect phys == was
	expect ledger.queued == 1166
	expect ledger.unmapped == 1166*489
	expect ledger.adds_up
	report "held by queued huge pages" ledger.unmapped*4096 "bytes" "usage less rss: 2,337,394,688 B"
	mark
	S = deferred_split
	expect S == 1166
	expect vmstat.thp_split_page == 1166
	expect ledger.queued == 0
	expect ledger.unmapped == 0
	expect rss == 218898432
	expect phys == rss
	for i in 52..N-1 { V = read A+i*2M+22p; expect V == 23+i*23 }
	expect ledger.adds_up
}
if variant.churn {
	M = 117
	for r in 1..4 {
		B = mmap M*2M align=2M
		for i in 0..M-1 { fill B+i*2M..B+i*2M+23p step 1p 1+i }
		for i in 0..M-1 { madvise B+i*2M+23p 2M-23p dontneed }
		# What is used moves on; of each page of the round before one part stays: RSS hardly grows, what is held grows without bound.
		if r > 1 { for i in 0..M-1 { madvise L+i*2M 22p dontneed } }
		L = B
		expect ledger.queued == r*M
		expect phys == r*M*2M
		expect rss == M*23p+(r-1)*M*1p
	}
	expect ledger.adds_up
}
