# An allocator gives back 64 KiB of a huge page.
title "Purge in pieces breaks huge mappings"
source "jemalloc/jemalloc#1950, jemalloc/jemalloc#243, facebook/jemalloc#23"
note "1:16 of the report: 64 of 128 huge pages. Huge pages of 512 MiB over base pages of 64 KiB are not modelled."
machine cloud-2cpu
set transparent_hugepage.enabled always

N = 128
A = mmap N*2M align=2M
fill A..A+N*2M step 1p 1
expect smaps.AnonHugePages == N*2M
was = phys
mark
for i in 0..63 { madvise A+i*4M+i*7%32*64K 64K dontneed }
expect vmstat.thp_split_pmd == 64
expect smaps.AnonHugePages == N*1M
expect rss == N*2M - 64*64K
# The folios are whole: nothing has come back.
expect phys == was
expect ledger.queued == 64
S = deferred_split
expect S == 64
expect phys == was - 64*64K

# The holes are used again: base pages, and they stay so...
for i in 0..63 { touch A+i*4M+i*7%32*64K..A+i*4M+i*7%32*64K+64K write }
expect faults.base == 64*16
expect smaps.AnonHugePages == N*1M
# ... until khugepaged comes.
K = khugepaged
expect K == 64
expect smaps.AnonHugePages == N*2M
expect rss == N*2M
V = read A+N*2M-1p
expect V == N*512
