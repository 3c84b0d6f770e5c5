# Copy unit of a write fault on a huge page that fork shared.
title "Fork then write: huge copy or base copy"
source "redis/redis#7381, redis/redis#2844, commit 3917c80280c9 (thp: change CoW semantics for anon-THP)"
note "1:8 of the report: 64 huge pages instead of 512; counts scale with them."
machine cloud-2cpu
variant huge { set quire.huge_cow copy }
variant base { set quire.huge_cow split }
set transparent_hugepage.enabled always

N = 64
A = mmap N*2M align=2M
fill A..A+N*2M step 2M 1
fork P
mark
before = ledger.user
t0 = time_ns
fill A..A+N*2M step 2M 1000
if time_ns > 0 { report "a write fault, mean" (time_ns-t0)/N "ns" "about 250000 ns (Redis, copy of 2 MiB)" }

expect vmstat.pgfault == N
expect[huge] vmstat.quire_pages_copied == N*512
expect[huge] (ledger.user-before)*4096 == N*2M
expect[huge] smaps.AnonHugePages == N*2M
expect[huge] vmstat.thp_split_pmd == 0
expect[huge] vmstat.quire_fault_cow_2m == N

expect[base] vmstat.quire_pages_copied == N
expect[base] ledger.user-before == N
expect[base] vmstat.thp_split_pmd == N
expect[base] vmstat.quire_fault_cow_4k == N
expect[base] smaps.AnonHugePages == 0
proc P { expect smaps.AnonHugePages == N*2M; exit }
wait P

# What is left of the parent: as much resident as before, and with base copies one part of each huge page that nobody maps.
expect rss == N*2M
expect[base] ledger.queued == N
expect[base] ledger.unmapped == N
expect[base] vmstat.thp_deferred_split_page == N
expect[huge] ledger.unmapped == 0
expect ledger.adds_up

# When memory is short the parts that nobody maps can be had back, and since 6.12 those that hold only zeros.
S = deferred_split
expect[base] S == N
expect[base] vmstat.thp_split_page == N
expect[base] ledger.unmapped == 0
expect[base] rss == N*4096
expect[huge] S == 0 && rss == N*2M
