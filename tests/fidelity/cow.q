# Copy on write: who copies, who takes over.
#--- zero page, then written
A = mmap 4p at=ARENA flags=private,anon,fixed
read A
write A 1
read A
touch A..A+4p read
touch A..A+4p write
#--- the last one takes over
A = mmap 2p at=ARENA flags=private,anon,fixed
fill A..A+2p 1
fork P1
proc P1: exit
write A 2
write A+1p 3
#--- the child takes over
A = mmap 2p at=ARENA flags=private,anon,fixed
fill A..A+2p 1
fork P1
munmap A 2p
proc P1: write A 2
proc P1: write A+1p 2
#--- both write
A = mmap 2p at=ARENA flags=private,anon,fixed
fill A..A+2p 1
fork P1
write A 2
proc P1: write A 3
proc P1: write A+1p 4
write A+1p 5
#--- private file
file create F 8p shmem
file write F 0 8p 99
A = mmap 8p at=ARENA flags=private,fixed file=F
read A
write A 1
write A+1p 2
read A+2p
madvise A 4p dontneed
read A
read A+1p
#--- read only, then made writable
A = mmap 2p at=ARENA flags=private,anon,fixed
fill A..A+2p 1
mprotect A 2p r
fork P1
mprotect A 2p rw
write A 2
proc P1: mprotect A 2p rw
proc P1: write A 3
read A
#--- moved while shared
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
fork P1
B = mremap A 4p 4p flags=maymove,fixed to=ARENA+32p
write B 2
proc P1: read A
proc P1: write A 3
read B
#--- huge, partly
A = mmap 2M at=ARENA flags=private,anon,fixed
madvise A 2M hugepage
write A 1
fork P1
munmap A+1M 1M
write A 2
proc P1: write A+1M 3
proc P1: write A 4
proc P1: exit
write A+1p 5
