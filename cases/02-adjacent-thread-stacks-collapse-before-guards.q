# Thread stacks that lie side by side are one area until their guards exist.
title "Adjacent thread stacks collapse before guards exist"
source "openjdk/jdk#14919, openjdk/jdk#14105, jdk11u-dev#2205"
note "1:10 of the report: 100 stacks of 2 MiB, of which 12 pages are used, from an address that is no multiple of 2 MiB."
machine cloud-2cpu
variant never { set transparent_hugepage.enabled never }
variant touch_first { set transparent_hugepage.enabled never }
variant guard_first { set transparent_hugepage.enabled never }
variant shorter { set transparent_hugepage.enabled never }
variant huge_faults { set transparent_hugepage.enabled always }

N = 100
USED = 12p
L = 2M - variant.shorter*8K
AT = ARENA + 2M - ARENA%2M + 512K
for i in 0..N-1 { S[i] = mmap L at=AT+i*L flags=private,anon,fixed }
expect areas == 1
if variant.guard_first { for i in 0..N-1 { mprotect S[i] 4p none } }
for i in 0..N-1 { touch S[i]+L-USED..S[i]+L write }
mark

# Huge pages that faults did not get are made by khugepaged. Of all 2 MiB the first and the last belong to the area in part.
if variant.touch_first + variant.guard_first + variant.shorter {
	set transparent_hugepage.enabled always
	for i in 0..N-1 { madvise S[i] L hugepage }
	K = khugepaged
} else { K = 0 }

expect[never] rss == N*USED
expect[touch_first] K == N-1
expect[touch_first] rss == (N-1)*2M + USED
expect[touch_first] smaps.AnonHugePages == (N-1)*2M
expect[guard_first] K == 0
expect[guard_first] rss == N*USED
expect[shorter] K == N-2
expect[shorter] smaps.AnonHugePages == (N-2)*2M
expect[huge_faults] rss == (N-1)*2M + USED
expect[huge_faults] smaps.AnonHugePages == (N-1)*2M
before = rss
if variant.touch_first + variant.huge_faults { for i in 0..N-1 { mprotect S[i] 4p none } }
# The guards split the mappings only: no frame comes back.
if variant.touch_first + variant.huge_faults {
	expect vmstat.thp_split_pmd == N-1
	expect vmstat.thp_split_page == 0
	expect smaps.AnonHugePages == 0
	expect rss == before
}
report "memory of a stack" rss/N "bytes" "300 to 600 MB for 10,000 stacks with never, 2 to 13 GB with always"
