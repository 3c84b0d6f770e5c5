# fork: what a child has, what is shared until it is written.
#--- copies
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
fork P1
write A 10
proc P1: read A
proc P1: write A+1p 20
read A+1p
proc P1: touch A..A+4p write
touch A..A+4p write
proc P1: exit
wait P1
write A+2p 3
#--- a child's child
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
fork P1
proc P1: fork P2
write A 10
proc P1: write A 20
proc P2: write A 30
read A
proc P1: read A
proc P2: read A
proc P1: exit
proc P2: write A+1p 5
wait P1
wait P1
wait P2
#--- shared memory stays shared
A = mmap 4p at=ARENA flags=shared,anon,fixed
write A 1
fork P1
proc P1: read A
proc P1: write A+1p 2
read A+1p
proc P1: munmap A 4p
read A
#--- untouched and unreadable
A = mmap 4p at=ARENA flags=private,anon,fixed
B = mmap 4p at=ARENA+8p flags=private,anon,fixed prot=none
fork P1
proc P1: read A
proc P1: read B
proc P1: write A+1p 1
read A+1p
#--- dontfork and wipeonfork
A = mmap 6p at=ARENA flags=private,anon,fixed
fill A..A+6p 1
madvise A 2p dontfork
madvise A+2p 2p wipeonfork
fork P1
proc P1: read A
proc P1: read A+2p
proc P1: read A+4p
proc P1: write A+2p 7
read A+2p
proc P1: fork P2
proc P2: read A+2p
#--- locks are not inherited
A = mmap 4p at=ARENA flags=private,anon,fixed
mlock A 4p
fork P1
proc P1: write A 1
proc P1: munmap A 4p
#--- rights and merging
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
mprotect A+2p 2p r
fork P1
proc P1: mprotect A+2p 2p rw
proc P1: write A+2p 2
mprotect A+2p 2p rw
write A+3p 3
proc P1: B = mmap 4p at=ARENA+4p flags=private,anon,fixed
proc P1: write B 1
C = mmap 4p at=ARENA+4p flags=private,anon,fixed
write C 1
#--- zero page
A = mmap 4p at=ARENA flags=private,anon,fixed
touch A..A+4p read
fork P1
proc P1: write A 1
write A+1p 1
proc P1: read A+1p
#--- huge
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A 4M hugepage
touch A..A+4M step 2M write
fork P1
proc P1: write A 5
write A+1p 6
proc P1: read A+2M
proc P1: write A+2M+1p 7
proc P1: exit
write A+2M 8
write A+4M-1p 9
#--- huge zero page
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A 4M hugepage
touch A..A+4M step 2M read
fork P1
proc P1: write A 1
write A+2M 2
#--- unmapped in one, used in the other
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+8p 1
fork P1
munmap A+2p 2p
proc P1: read A+2p
proc P1: madvise A 8p dontneed
read A
proc P1: read A
write A+4p 1
#--- file
file create F 8p shmem
A = mmap 4p at=ARENA flags=private,fixed file=F
B = mmap 4p at=ARENA+8p flags=shared,fixed file=F
write A 1
write B+1p 2
fork P1
proc P1: read A
proc P1: read A+1p
proc P1: write A+1p 3
proc P1: write B 4
read B
read A+1p
