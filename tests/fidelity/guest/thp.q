# Transparent huge pages by their settings: needs a kernel whose settings may be written (scripts/guest).
#--- always
set transparent_hugepage.enabled always
A = mmap 8M at=ARENA flags=private,anon,fixed
write A 1
touch A+2M read
write A+2M 2
madvise A+4M 2M nohugepage
write A+4M 3
write A+6M 4
munmap A+1p 1p
madvise A+2M 2M dontneed
#--- madvise
set transparent_hugepage.enabled madvise
A = mmap 8M at=ARENA flags=private,anon,fixed
write A 1
madvise A+2M 2M hugepage
write A+2M 2
touch A+4M read
madvise A+4M 4M hugepage
touch A+6M read
write A+6M 5
#--- never
set transparent_hugepage.enabled never
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A 4M hugepage
write A 1
touch A+2M read
fork P1
proc P1: write A 2
#--- turned off under way
set transparent_hugepage.enabled always
A = mmap 8M at=ARENA flags=private,anon,fixed
write A 1
set transparent_hugepage.enabled never
write A+2M 2
write A+1p 3
set transparent_hugepage.enabled madvise
write A+4M 4
madvise A+6M 2M hugepage
write A+6M 5
set transparent_hugepage.enabled always
write A+3M 6
#--- no huge page of zeroes
set transparent_hugepage.enabled always
set transparent_hugepage.use_zero_page 0
A = mmap 4M at=ARENA flags=private,anon,fixed
touch A read
write A 1
touch A+2M write
#--- a huge page of zeroes
set transparent_hugepage.enabled always
set transparent_hugepage.use_zero_page 1
A = mmap 4M at=ARENA flags=private,anon,fixed
touch A read
touch A+2M read
write A+1p 1
fork P1
proc P1: write A+2M 2
proc P1: exit
#--- each way to make room
set transparent_hugepage.enabled always
set transparent_hugepage.defrag always
A = mmap 2M at=ARENA flags=private,anon,fixed
write A 1
set transparent_hugepage.defrag defer
B = mmap 2M at=ARENA+4M flags=private,anon,fixed
write B 2
set transparent_hugepage.defrag defer+madvise
C = mmap 2M at=ARENA+8M flags=private,anon,fixed
write C 3
set transparent_hugepage.defrag madvise
D = mmap 2M at=ARENA+12M flags=private,anon,fixed
write D 4
set transparent_hugepage.defrag never
E = mmap 2M at=ARENA+16M flags=private,anon,fixed
write E 5
#--- a process of its own mind
set transparent_hugepage.enabled always
prctl thp_disable 1
A = mmap 4M at=ARENA flags=private,anon,fixed
write A 1
fork P1
proc P1: write A+2M 2
prctl thp_disable 0
write A+2M 3
#--- fork of huge pages, counted
set transparent_hugepage.enabled always
A = mmap 8M at=ARENA flags=private,anon,fixed
touch A..A+8M step 2M write
fork P1
proc P1: write A+1p 1
write A+2M 2
proc P1: madvise A+4M 1p dontneed
proc P1: munmap A+6M 1M
mprotect A+4M 1p r
proc P1: exit
write A 3
