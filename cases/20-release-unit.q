# A snapshot child gives back what it has written out: by the object, or by the page when all its objects are gone.
title "Release unit smaller than a page"
source "redis/redis#15260, redis/redis#8974, redis/redis#1823"
note "1:250 of the report: 4,000 objects instead of 1 M. The parent writes 800 objects (20 %), each once, one after every fifth drop. The objects begin 16 bytes into a page. rule1: whole pages inside one object; rule2: a page when all of it lies behind the objects dropped so far. In the report the child went 6,222 -> 1,282 MB with values of 2,000 B and real frees."
variant rule1_500  { }
variant rule1_2000 { }
variant rule1_8192 { }
variant rule2_500  { }
variant rule2_2000 { }
variant rule2_8192 { }
set transparent_hugepage.enabled never

N = 4000
S = 500
if variant.rule1_2000 || variant.rule2_2000 { S = 2000 }
if variant.rule1_8192 || variant.rule2_8192 { S = 8192 }
RULE2 = variant.rule2_500 || variant.rule2_2000 || variant.rule2_8192
O = 16
pages = (O+N*S+4095)/4096
A = mmap pages*4K
fill A..A+pages*4K 1
for p in 0..pages-1 { W[p] = 0 }
fork P
proc P { touch A read }
mark
released = 0
first_writes = 0
done = 0
proc P {
for i in 0..N-1 {
	from = (O+i*S+4095)/4096
	if RULE2 { from = done }
	to = (O+(i+1)*S)/4096
	if to > from {
		madvise A+from*4K (to-from)*4K dontneed
		released = released+to-from
		done = to
	}
	if i % 5 == 4 {
		# 1,237 and 4,000 have no common divisor: every object at most once
		proc main {
			k = i*1237 % N
			q = (O+k*S)/4096
			r = (O+(k+1)*S-1)/4096
			touch A+q*4K..A+(r+1)*4K write
			for p in q..r { if W[p] == 0 { W[p] = 1; first_writes = first_writes+1 } }
		}
	}
}
}
expect[rule1_500] released == 0
expect[rule1_2000] released == 0
expect[rule1_8192] released == N
expect[rule2_500] released == (O+N*500)/4096
expect[rule2_2000] released == (O+N*2000)/4096
expect[rule2_8192] released == (O+N*8192)/4096
expect faults.cow + faults.reuse == first_writes
expect[rule1_500] faults.reuse == 0
expect[rule1_2000] faults.reuse == 0
if RULE2 { expect faults.reuse > 0 }
proc P { report "child's resident memory" rss/1024 "KiB" }
report "copied for the parent's writes" faults.cow "pages"
report "reused" faults.reuse "pages"

# With huge pages a part that is given back frees no frame.
set transparent_hugepage.enabled always
H = mmap 2M align=2M
write H 1
before = ledger.user
madvise H+64K 64K dontneed
expect ledger.user == before
expect ledger.unmapped == 16
expect ledger.queued == 1
expect ledger.adds_up
