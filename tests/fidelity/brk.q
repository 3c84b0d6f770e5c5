# brk: the break moves, refuses, merges.
#--- growing and shrinking
A = sbrk 0
sbrk 1p
write A 1
sbrk 3p
touch A..A+4p write
sbrk -2p
read A+1p
read A+2p
sbrk -2p
read A
sbrk 4p
read A
#--- parts of pages
A = sbrk 100
write A 1
sbrk 4000
sbrk -100
sbrk 96
sbrk -4096
#--- refused
A = sbrk 1p
brk A-1p
brk 0
brk 1
brk 0x7fffffffffff
sbrk 5G
sbrk 0
#--- in the way
A = sbrk 1p
mmap 1p at=A+8p flags=private,anon,fixed
sbrk 4p
sbrk 4p
sbrk 16p
sbrk 0
#--- locked
mlockall future
A = sbrk 4p
sbrk -1p
munlockall
sbrk 2p
#--- protected inside
A = sbrk 8p
touch A..A+8p write
mprotect A+2p 2p r
sbrk 2p
sbrk -9p
#--- unmapped inside
A = sbrk 8p
munmap A+2p 2p
sbrk -4p
sbrk -4p
sbrk 4p
#--- forked
A = sbrk 4p
fill A..A+4p 1
fork P1
proc P1: sbrk 2p
proc P1: write A 5
read A
sbrk -4p
proc P1: read A
