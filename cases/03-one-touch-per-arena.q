# Every thread's arena takes a huge page at its first touch.
title "One touch per arena"
source "jemalloc/jemalloc#1674"
variant always     { set transparent_hugepage.enabled always }
variant madvise    { set transparent_hugepage.enabled madvise }
variant never      { set transparent_hugepage.enabled never }
variant prctl      { set transparent_hugepage.enabled always }
variant nohugepage { set transparent_hugepage.enabled madvise }

N = 100
if variant.prctl { prctl thp_disable 1 }
for i in 1..N {
	A[i] = mmap 2M align=2M
	if variant.nohugepage { madvise A[i] 2M nohugepage }
}
mark
for i in 1..N { write A[i] i }

expect[always] faults.huge == N
expect[always] faults.base == 0
expect[always] rss == N*2M
expect[always] ledger.huge == N
expect[always] ledger.unwritten == N*511

expect[madvise] faults.base == N
expect[madvise] rss == N*4K
expect[madvise] vmstat.quire_thp_ineligible_advice == N
expect[never] faults.base == N
expect[never] rss == N*4K
expect[never] vmstat.quire_thp_ineligible_disabled == N
expect[prctl] faults.base == N
expect[prctl] rss == N*4K
expect[prctl] vmstat.quire_thp_ineligible_prctl == N
expect[nohugepage] faults.base == N
expect[nohugepage] rss == N*4K
expect[nohugepage] vmstat.quire_thp_ineligible_advice == N

expect vmstat.thp_fault_fallback == 0
expect ledger.adds_up
if variant.always { report "resident" rss/1000000 "MB" "181 to 283 MB" }
if variant.never { report "resident" rss/1000000 "MB" "12 to 17 MB, with the program's own memory" }
