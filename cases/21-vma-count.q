# Out of memory with memory free: the number of areas.
title "ENOMEM with terabytes free: VMA count"
source "JustVugg/colibri#419, JustVugg/colibri#429, openucx/ucx#11573, ClickHouse/ClickHouse#109734, jemalloc/jemalloc#1011, inko-lang/inko#540"
note "Parts (a), (d) with PROT_NONE guards, and (e), with a limit of 1,000 areas instead of 65,530. Expected otherwise than in the first list of cases: madvise at the limit gives EAGAIN, not ENOMEM; so does Linux 6.18, at 65,530 areas. Missing: (b) and (c), which need memory policies; guard markers (MADV_GUARD_INSTALL)."
set vm.max_map_count 1000

# (a) adjacent anonymous slabs are one area
n = areas
A = mmap 400*19M prot=none flags=private,anon,noreserve
munmap A 400*19M
for i in 0..399 { S[i] = mmap 19M at=A+i*19M flags=private,anon,fixed,noreserve }
expect areas == n+1
munmap A 400*19M
expect areas == n

# (d) a guard of its own splits: two areas for each live stack
A = mmap 300*320K prot=none flags=private,anon,noreserve
munmap A 300*320K
for i in 0..299 {
	S[i] = mmap 320K at=A+i*320K flags=private,anon,fixed
	mprotect S[i] 4K none
}
expect areas == n+2*300
for i in 0..299 { mprotect S[i] 4K rw }
expect areas == n+1
munmap A 300*320K

# (e) advice for every second page: an area a page, until the limit
B = mmap 2000*4K
m = areas
last = 0-1
for i in 0..999 {
	if last == 0-1 {
		madvise B+(2*i+1)*4K 4K dontfork -> any
		if errno != 0 { last = i; why = errno }
	}
}
# EAGAIN: madvise says so of every shortage. With the stack there are as many areas as are allowed.
expect why == 11
expect areas == 999
expect last == 499
madvise B 2000*4K dofork
expect areas == m
