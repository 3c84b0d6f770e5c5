# munmap: errors, holes, ends.
#--- errors
munmap ARENA 0
munmap ARENA+1 1p
munmap ARENA 0xffffffffffffffff
munmap ARENA 0x800000000000
munmap 0x7ffffffff000 1p
munmap 0x800000000000 1p
munmap 0xfffffffffffff000 1p
munmap 0x7fffffffe000 2p
#--- nothing there
munmap ARENA 16p
munmap 0 1p
munmap ARENA 1
#--- parts
A = mmap 16p at=ARENA flags=private,anon,fixed
touch A..A+16p write
munmap A 1p
munmap A+15p 1p
munmap A+4p 2p
munmap A+4p 2p
munmap A+1p 1
munmap A+6p 4097
munmap A 16p
#--- over several areas
A = mmap 4p at=ARENA flags=private,anon,fixed
B = mmap 4p at=ARENA+6p flags=private,anon,fixed prot=r
C = mmap 4p at=ARENA+12p flags=shared,anon,fixed
touch A..A+4p write
touch B..B+4p read
touch C..C+4p write
munmap A+2p 12p
read A
read C+2p
read C
#--- used again
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 100
munmap A 4p
read A
A = mmap 4p at=ARENA flags=private,anon,fixed
read A
#--- locked
A = mmap 8p at=ARENA flags=private,anon,fixed
mlock A 8p
munmap A+2p 2p
munmap A 8p
#--- huge
A = mmap 8M at=ARENA flags=private,anon,fixed
madvise A 8M hugepage
touch A..A+8M step 2M write
munmap A+1p 1p
munmap A+2M 2M
munmap A+4M-1p 2p
munmap A 8M
#--- of parts of what is shared with a child, and twice
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+8p 1
fork P
munmap A+2p 2p
munmap A+2p 2p
munmap A+1 1p
munmap A 1
proc P: read A+2p
proc P: munmap A+7p 100p
proc P: read A+7p -> SIGSEGV
write A+7p 3
munmap ARENA-8p 64p
