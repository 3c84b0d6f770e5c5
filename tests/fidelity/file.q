# Mappings of files: in memory, and ordinary ones.
#--- in memory
file create F 8p shmem
A = mmap 8p at=ARENA flags=shared,fixed file=F
B = mmap 8p at=ARENA+16p flags=private,fixed file=F
read A
write A+1p 5
read B+1p
write B+1p 6
read A+1p
touch A..A+8p write
mprotect A 8p r
write A 1
#--- ordinary
file create G 8p plain
A = mmap 8p at=ARENA flags=shared,fixed file=G
read A
read A+3p
write A+4p 5
read A+4p
B = mmap 4p at=ARENA+16p flags=private,fixed file=G off=2p
read B
write B+1p 6
read A+3p
#--- errors
file create F 4p shmem
mmap 1p flags=private file=F off=1
mmap 1p flags=none file=F
mmap 1p flags=shared,growsdown file=F
mmap 1p flags=private,growsdown file=F
mmap 1p flags=shared_validate,sync file=F
mmap 1p flags=shared_validate,fixed at=ARENA file=F
mmap 1p flags=private file=F off=0x7ffffffffffff000
mmap 0 flags=private file=F
file close F
mmap 1p flags=private file=F
file close F
#--- behind the end
file create F 2p shmem
A = mmap 4p at=ARENA flags=shared,fixed file=F
read A+1p
read A+2p
write A+3p 1
mincore A 4p
madvise A 4p populate_read
madvise A 4p populate_write
B = mmap 4p at=ARENA+8p flags=private,fixed file=F
read B+2p
write B+2p 1
#--- merging by offset
file create F 16p shmem
A = mmap 4p at=ARENA flags=shared,fixed file=F
B = mmap 4p at=ARENA+4p flags=shared,fixed file=F off=4p
C = mmap 4p at=ARENA+8p flags=shared,fixed file=F off=4p
D = mmap 4p at=ARENA+12p flags=private,fixed file=F off=8p
E = mmap 4p at=ARENA+16p flags=private,fixed file=F off=12p
munmap B 1p
mremap C 4p 2p
mremap D 4p 4p flags=maymove,fixed to=ARENA+64p
#--- advice
file create F 8p shmem
A = mmap 8p at=ARENA flags=shared,fixed file=F
fill A..A+8p 1
madvise A 8p dontneed
read A
madvise A 8p free
madvise A 8p wipeonfork
madvise A 8p willneed
madvise A 4p random
B = mmap 8p at=ARENA+16p flags=private,fixed file=F
write B 5
madvise B 8p free
madvise B 8p dontneed
read B
madvise B 4p populate_write
#--- read and written beside the mapping
file create F 8p shmem
A = mmap 8p at=ARENA flags=shared,fixed file=F
file write F 0 4p 77
read A
write A+1p 5
file read F 0 8p
file write F 1p 1p 78
read A+1p
B = mmap 4p at=ARENA+16p flags=private,anon,fixed
pread F B 0 4p
read B+1p
write B 9
pwrite F B 2p 1p
read A+2p
#--- populate
file create F 8p shmem
A = mmap 8p at=ARENA flags=shared,fixed,populate file=F
file create G 8p shmem
B = mmap 8p at=ARENA+16p flags=private,fixed,populate file=G
C = mmap 8p at=ARENA+32p flags=private,fixed,populate prot=r file=G
write B 1

#--- read as advised: at random, in sequence, ahead
file create F 64p plain
A = mmap 64p file=F
madvise A 64p random
read A+20p
read A+21p
madvise A 64p normal
munmap A 64p
file create G 24p plain
B = mmap 24p file=G flags=shared
madvise B 24p sequential
read B+7p
mincore B 24p
read B+3p
file create H 24p plain
C = mmap 24p file=H at=ARENA flags=private,fixed
madvise C+5p 6p willneed
mincore C 24p
read C+6p
madvise C+20p 100p willneed -> ENOMEM
mincore C 24p

#--- executable mappings read forwards, not beyond themselves
file create F 32p plain
A = mmap 10p file=F off=4p prot=rx
read A+3p
mincore A 10p
read A+1p
madvise A 10p random
munmap A 10p
B = mmap 32p file=F
mincore B 32p
read B+20p

#--- truncated under mappings
file create F 8p shmem
A = mmap 8p at=ARENA flags=shared,fixed file=F
B = mmap 8p at=ARENA+16p flags=private,fixed file=F
fill A..A+8p 1
write B+5p 9
read B+6p
fork P
file truncate F 4p
read A+3p
read A+4p -> SIGBUS
read B+5p -> SIGBUS
proc P: read B+5p -> SIGBUS
proc P: write A+7p 1 -> SIGBUS
file truncate F 8p
read A+4p
read B+5p
proc P: write B+6p 3
file truncate F 1
file truncate F 0
read A -> SIGBUS
mincore A 8p
proc P: exit
wait P
#--- truncated in the midst of a page, an ordinary file
file create F 6p plain
A = mmap 6p at=ARENA flags=shared,fixed file=F
touch A..A+6p read
write A+2p 7
file truncate F 9000
read A+2p
read A+3p -> SIGBUS
file truncate F 5p
read A+3p
msync A 6p sync
write A+2p 8
#--- used again and again: what read(2) marks, and what going marks
file create F 6p plain
file create G 6p shmem
file read F 0 2p
file read F 1p 2p
file read F 8 8
file read F 16 8
A = mmap 6p at=ARENA flags=shared,fixed file=F
B = mmap 6p at=ARENA+16p flags=shared,fixed file=G
touch A..A+6p read
file write G 0 3p 5
file read G 8 4096
file read G 1p 1p
touch B..B+6p read
munmap A 6p
madvise B 6p dontneed
A = mmap 6p at=ARENA flags=shared,fixed file=F
madvise A 6p random
touch A..A+2p read
touch B..B+2p read
madvise A 6p dontneed
touch A..A+2p read
madvise B 3p sequential
madvise B 6p dontneed
touch B..B+6p read
