# A buffer cleared by MADV_DONTNEED and read before it is written faults twice a page.
title "DONTNEED as zeroing: one fault or two"
source "ClickHouse/ClickHouse#53267, ClickHouse/ClickHouse#52608, nodejs/node#57740"
note "1:50 of the report: 20 rounds instead of 1,000; counts scale with them. Expected otherwise than in the first list of cases: with a split of the huge zero page (5.8 to 6.12) only the first round reads by huge pages, since DONTNEED leaves the page tables that the split brought; from the second round on every page is read and written by base faults."
variant never     { set transparent_hugepage.enabled never }
variant nozero    { set transparent_hugepage.enabled always; set transparent_hugepage.use_zero_page 0 }
variant zero_huge { set transparent_hugepage.enabled always; set quire.huge_zero_cow huge }
variant zero_base { set transparent_hugepage.enabled always; set quire.huge_zero_cow split }

R = 20
A = mmap 8M align=2M
# (a) memset, over and over
mark
for i in 1..R { touch A..A+8M write }
expect[never] vmstat.pgfault == 2048
expect[nozero] vmstat.pgfault == 4
expect[zero_huge] vmstat.pgfault == 4
expect[zero_base] vmstat.pgfault == 4

# (b) DONTNEED, then write
mark
for i in 1..R { madvise A 8M dontneed; touch A..A+8M write }
expect[never] vmstat.pgfault == R*2048
expect[nozero] vmstat.pgfault == R*4
expect[zero_huge] vmstat.pgfault == R*4
expect[zero_base] vmstat.pgfault == R*4

# (c) DONTNEED, then read all, then write all
mark
for i in 1..R { madvise A 8M dontneed; touch A..A+8M read; touch A..A+8M write }
expect[never] vmstat.pgfault == R*4096
expect[never] faults.zero == R*2048
expect[nozero] vmstat.pgfault == R*4
expect[zero_huge] vmstat.pgfault == R*8
expect[zero_huge] faults.zero == R*4
expect[zero_huge] vmstat.thp_split_pmd == 0
# Split once, a range keeps its page table: DONTNEED empties it, and the next round is one of base pages.
expect[zero_base] vmstat.pgfault == 4+2048+(R-1)*4096
expect[zero_base] faults.zero == 4+(R-1)*2048
expect[zero_base] vmstat.thp_split_pmd == 4
expect vmstat.quire_flush_madvise == R
