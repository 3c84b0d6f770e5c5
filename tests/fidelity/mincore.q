# mincore: errors, holes, what counts as in core.
#--- errors
A = mmap 4p at=ARENA flags=private,anon,fixed
mincore A+1 1p
mincore A 8p
mincore ARENA+16p 1p
mincore A 0
mincore A+1 0
mincore 0x7ffffffff000 1p
mincore A 0x7fffffffffff
mincore A 0xfffffffffffff000
mincore A 1
#--- anonymous
A = mmap 8p at=ARENA flags=private,anon,fixed
mincore A 8p
touch A..A+2p read
touch A+4p..A+6p write
mincore A 8p
mprotect A 8p none
mincore A 8p
madvise A 8p dontneed
mincore A 8p
#--- shared and files
A = mmap 4p at=ARENA flags=shared,anon,fixed
write A+1p 1
mincore A 4p
B = mremap A 0 4p
mincore B 4p
file create F 8p shmem
file write F 0 2p 7
C = mmap 8p at=ARENA+16p flags=private,fixed file=F
mincore C 8p
write C+4p 1
mincore C 8p
#--- huge
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A 4M hugepage
write A 1
mincore A 4M
touch A+2M read
mincore A 4M
#--- over holes, and what was taken away
A = mmap 4p at=ARENA flags=private,anon,fixed
B = mmap 4p at=ARENA+6p flags=shared,anon,fixed
touch A..A+4p write
touch B..B+2p write
mincore A 10p
mincore A+4p 2p
mincore B 4p
madvise B 4p dontneed
mincore B 4p
mprotect A 4p none
mincore A 4p
madvise A 2p free
mincore A 4p
fork P
proc P: mincore B 4p
proc P: mincore A 4p
mincore 0 1p
mincore A+8 0
