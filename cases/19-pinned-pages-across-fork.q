# Whoever pinned a page goes on writing to it: a fork must not move it from under the parent.
title "Pinned pages across fork"
source "google/gvisor#14031, commit d042035eaf5f (mm/thp: Split huge pmds/puds if they're pinned when fork()), ofiwg/libfabric#5215, linux-rdma/rdma-core#883"
note "Pins are counted by the folio, as Linux does: all 512 parts of a huge page count as pinned."
set transparent_hugepage.enabled madvise
variant pinned   { }
variant unpinned { }

A = mmap 64K
H = mmap 2M align=2M
madvise H 2M hugepage
fill A..A+64K 100
fill H..H+2M 1000
for i in 0..15 { F[i] = pages.frame(A+i*4K) }
G = pages.frame(H)
if variant.pinned { pin I A 64K write; pin J H 4096 write }
mark
fork P
expect[pinned] vmstat.quire_fork_pinned_copied == 16+512
expect[pinned] vmstat.thp_split_pmd == 1
expect[unpinned] vmstat.quire_fork_pinned_copied == 0
expect[unpinned] vmstat.thp_split_pmd == 0

mark
fill A..A+64K 200
write H 2000
expect[pinned] faults.cow == 0
expect[unpinned] faults.cow == 17
if variant.pinned {
	for i in 0..15 { expect pages.frame(A+i*4K) == F[i] }
	expect pages.frame(H) == G
}
proc P {
	for i in 0..15 { V = read A+i*4K; expect V == 100+i }
	V = read H; expect V == 1000
}
# A pin for reading of a page that is still shared must have its own copy first.
B = mmap 4K
write B 1
fork Q
mark
pin K B 4096 read
proc Q { S = pages.frame(B) }
expect pages.frame(B) != S
expect vmstat.quire_pages_copied == 1
