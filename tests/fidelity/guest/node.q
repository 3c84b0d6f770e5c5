# Several nodes: where first touch puts a page. The comparison asks for the node of each page after every step.
#--- first touch
A = mmap 16p at=ARENA flags=private,anon,fixed
touch A..A+4p write
cpu 1
touch A+4p..A+8p write
touch A+8p..A+10p read
write A+8p 1
cpu 0
write A+9p 2
write A+4p 3
touch A+10p..A+12p write
#--- huge pages
A = mmap 8M at=ARENA flags=private,anon,fixed
madvise A 8M hugepage
write A 1
cpu 1
write A+2M 2
write A+1p 3
cpu 0
write A+4M 4
#--- a copy is where the writer is
A = mmap 4p at=ARENA flags=private,anon,fixed
touch A..A+4p write
fork P1
proc P1 { cpu 1; write A 1; write A+1p 2 }
write A+2p 3
proc P1: write A+2p 4
proc P1: exit
write A+1p 5
#--- shared memory
A = mmap 8p at=ARENA flags=shared,anon,fixed
touch A..A+4p write
cpu 1
touch A..A+8p write
fork P1
proc P1: cpu 0
proc P1: touch A..A+8p read
#--- brought in by a call
A = mmap 8p at=ARENA flags=private,anon,fixed
cpu 1
madvise A 4p populate_write
cpu 0
mlock A+4p 2p
B = mmap 4p at=ARENA+16p flags=private,anon,fixed,populate
#--- given back and touched elsewhere
A = mmap 4p at=ARENA flags=private,anon,fixed
touch A..A+4p write
cpu 1
madvise A 2p dontneed
touch A..A+4p write
C = mremap A 4p 8p flags=maymove,fixed to=ARENA+64p
touch C..C+8p write
