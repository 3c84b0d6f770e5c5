# msync: flags, ranges, holes, and what it leaves clean.
#--- flags
A = mmap 4p at=ARENA flags=shared,anon,fixed
msync A 4p none
msync A 4p async
msync A 4p sync
msync A 4p invalidate
msync A 4p sync,invalidate
msync A 4p async,invalidate
msync A 4p sync,async
msync A 4p 32
#--- ranges
A = mmap 4p at=ARENA flags=private,anon,fixed
msync A+8 1p sync
msync A 0 sync
msync A 1 sync
msync A+1p 4097 sync
msync A 0xffffffffffffffff sync
msync A 0xfffffffffffff000 sync
msync A 0x7ffffffff000 sync
msync 0 1p sync
msync 0 0 sync
msync A+8 0 sync
msync 0xfffffffffffff000 1p sync
#--- holes
A = mmap 2p at=ARENA flags=private,anon,fixed
B = mmap 2p at=ARENA+4p flags=private,anon,fixed
msync A 6p sync
msync A 6p async
msync A 6p none
msync A+2p 2p sync
msync A+2p 2p async
msync A+3p 2p sync
msync A+3p 1p invalidate
msync A 7p sync
msync A 7p invalidate
msync A 3p async,invalidate
#--- what is locked
A = mmap 4p at=ARENA flags=private,anon,fixed
mlock A+2p 1p
msync A 2p invalidate
msync A 4p invalidate
msync A 4p sync
msync A 4p sync,invalidate
msync A+1p 8p invalidate
munlock A 4p
msync A 4p invalidate
#--- an ordinary file is clean afterwards
file create F 8p plain
A = mmap 8p at=ARENA flags=shared,fixed file=F
write A 1
write A+1p 2
read A+2p
msync A 1p async
msync A 1p sync
write A 3
msync A 8p sync
write A+1p 4
read A
msync A+4p 4p sync
#--- an ordinary file of two mappings and two processes
file create F 8p plain
A = mmap 8p at=ARENA flags=shared,fixed file=F
B = mmap 4p at=ARENA+16p flags=shared,fixed file=F off=2p
C = mmap 8p at=ARENA+32p flags=private,fixed file=F
write A+2p 1
write B 2
write C+2p 3
fork P
proc P: write B+1p 7
msync A 8p sync
proc P: write A+2p 9
write B 10
mprotect B 4p r
msync B 4p sync
proc P: msync C 8p sync
proc P: exit
wait P
#--- written beside the mapping, and without rights
file create F 4p plain
A = mmap 4p at=ARENA flags=shared,fixed file=F
read A
file write F 0 2p 5
msync A 4p sync
write A+1p 6
mprotect A 4p none
msync A 4p sync
mprotect A 4p rw
write A+1p 7
#--- in memory nothing is written
file create F 4p shmem
A = mmap 4p at=ARENA flags=shared,fixed file=F
write A 1
msync A 4p sync
B = mmap 4p at=ARENA+8p flags=shared,anon,fixed
write B 1
msync B 4p sync
msync A 12p sync
