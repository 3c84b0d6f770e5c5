# madvise: each advice on each kind of memory.
#--- errors
A = mmap 4p at=ARENA flags=private,anon,fixed
madvise A+1 1p dontneed
madvise A 0 dontneed
madvise A 0 1234
madvise A 1p 1234
madvise A 0xffffffffffffffff dontneed
madvise A 0xfffffffffffff000 dontneed
madvise A 8p dontneed
madvise ARENA+100p 1p dontneed
madvise ARENA-2p 4p normal
madvise A 1 dontneed
#--- dontneed
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
madvise A 2p dontneed
read A
read A+2p
write A 5
madvise A 4p dontneed
touch A..A+4p read
madvise A 4p dontneed
#--- dontneed of what is not ours
A = mmap 4p at=ARENA flags=shared,anon,fixed
fill A..A+4p 1
madvise A 4p dontneed
read A
mlock A 2p
madvise A 4p dontneed
madvise A 4p dontneed_locked
munlock A 2p
#--- free
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
madvise A 2p free
write A 9
madvise A 4p free
touch A..A+4p write
B = mmap 4p at=ARENA+10p flags=shared,anon,fixed
write B 1
madvise B 4p free
C = mmap 4p at=ARENA+20p flags=private,anon,fixed prot=r
read C
madvise C 4p free
#--- locked memory
A = mmap 4p at=ARENA flags=private,anon,fixed
mlock A 4p
madvise A 2p dontneed
madvise A 2p free
madvise A 2p dontneed_locked
read A
munlock A 4p
madvise A 2p dontneed
#--- flags
A = mmap 8p at=ARENA flags=private,anon,fixed
madvise A 2p random
madvise A+1p 2p sequential
madvise A 8p normal
madvise A+2p 2p dontfork
madvise A+4p 2p dontdump
madvise A+6p 2p wipeonfork
madvise A 8p dofork
madvise A 8p dodump
madvise A 8p keeponfork
madvise A 4p hugepage
madvise A+2p 4p nohugepage
madvise A 8p hugepage
madvise A 8p willneed
#--- flags of shared memory
A = mmap 4p at=ARENA flags=shared,anon,fixed
madvise A 4p wipeonfork
madvise A 4p keeponfork
madvise A 4p dontfork
madvise A 4p dofork
madvise A 4p random
madvise A 4p hugepage
madvise A 4p nohugepage
madvise A 4p willneed
#--- holes
A = mmap 2p at=ARENA flags=private,anon,fixed
B = mmap 2p at=ARENA+4p flags=private,anon,fixed
fill A..A+2p 1
fill B..B+2p 1
madvise A 6p dontneed
madvise A 6p dontfork
madvise A+1p 2p random
madvise A 6p wipeonfork
#--- populate
A = mmap 8p at=ARENA flags=private,anon,fixed
madvise A 2p populate_read
madvise A+1p 2p populate_write
B = mmap 2p at=ARENA+10p flags=private,anon,fixed prot=r
madvise B 2p populate_write
madvise B 2p populate_read
C = mmap 2p at=ARENA+20p flags=private,anon,fixed prot=none
madvise C 2p populate_read
madvise C 2p populate_write
madvise A 9p populate_read
madvise A+6p 6p populate_write
madvise ARENA+100p 1p populate_read
D = mmap 2p at=ARENA+30p flags=shared,anon,fixed
madvise D 2p populate_read
madvise D 2p populate_write
E = mmap 2p at=ARENA+40p flags=private,anon,fixed prot=w
madvise E 2p populate_read
madvise E 2p populate_write
madvise E+1 1p populate_read
#--- huge
A = mmap 6M at=ARENA flags=private,anon,fixed
madvise A 6M hugepage
touch A..A+6M step 2M write
madvise A 2M dontneed
madvise A+2M 1p dontneed
madvise A+4M 2M free
write A+4M 1
madvise A+4M 1M dontneed
touch A..A+6M step 2M read
madvise A 6M nohugepage
madvise A 6M dontneed
touch A..A+6M step 2M write

#--- free, a part of a huge page that is shared, and of the huge zero page
A = mmap 4M at=ARENA flags=private,fixed,anon
madvise A 4M hugepage
write A+5p 7
read A+2M
fork c
madvise A+10p 20p free
proc c: madvise A+100p 20p free
madvise A+2M+10p 20p free
proc c: exit
wait c
#--- each advice over a hole, and beside the range
A = mmap 2p at=ARENA flags=private,anon,fixed
B = mmap 2p at=ARENA+4p flags=private,anon,fixed
madvise A 6p random
madvise A 6p normal
madvise A+1p 5p sequential
madvise A 6p willneed
madvise A 6p dontneed
madvise A 6p free
madvise A 6p dontfork
madvise A 6p dofork
madvise A 6p hugepage
madvise A 6p nohugepage
madvise A 6p dontdump
madvise A 6p dodump
madvise A 6p wipeonfork
madvise A 6p keeponfork
madvise A 6p populate_read
madvise A 6p populate_write
madvise A 6p dontneed_locked
madvise A+2p 2p populate_write
madvise A+2p 2p dontneed
madvise A+8 1p free
madvise A+8 0 free
madvise A 0xffffffffffffffff populate_write
#--- populate without the right to, and of what is locked
A = mmap 2p at=ARENA flags=private,anon,fixed prot=none
madvise A 2p populate_read
madvise A 2p populate_write
mprotect A 2p r
madvise A 2p populate_read
madvise A 2p populate_write
mprotect A 2p w
madvise A 2p populate_read
madvise A 2p populate_write
mlock A 1p
madvise A 2p populate_write
madvise A 2p dontneed
madvise A 2p dontneed_locked
madvise A 2p free
#--- used twice by calls
A = mmap 4p at=ARENA flags=private,anon,fixed
madvise A 4p populate_write
fork P
madvise A 2p populate_read
proc P: madvise A 1p populate_read
proc P: madvise A 1p populate_read
mlock A 4p
madvise A 4p populate_read
munlock A 4p
madvise A 4p populate_read
proc P: exit
madvise A 4p free
madvise A 2p populate_read
#--- emptied tables
A = mmap 6M at=ARENA flags=private,anon,fixed
touch A..A+6M step 1M write
madvise A 6M hugepage
touch A+4p..A+5p write
madvise A 2M dontneed
touch A write
madvise A+2M+1p 1M dontneed
madvise A+3M+1p 1M dontneed
touch A+2M write
madvise A+2M 4M dontneed
touch A+2M..A+6M step 2M write
B = mmap 2M at=ARENA+8M flags=private,anon,fixed
touch B write
madvise B 2M dontneed_locked
madvise B 2M hugepage
touch B write
fork P
proc P: madvise A 6M dontneed
proc P: touch A..A+6M step 2M write
#--- cold
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+6p 1
madvise A 3p cold
read A+1p
madvise A 8p cold
write A+2p 7
mlock A+4p 1p
madvise A 8p cold
madvise A+4p 1p cold
munlock A+4p 1p
madvise A 8p cold
#--- pageout
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+6p 1
madvise A 2p pageout
read A
madvise A 4p free
write A+1p 9
madvise A 8p pageout
read A
read A+1p
read A+2p
mlock A+4p 1p
madvise A 8p pageout
munlock A+4p 1p
madvise A 8p pageout
