# MADV_COLLAPSE (6.1): what becomes a huge page, and what the call says when it does not.
#--- errors
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A+1 2M collapse
madvise A 0 collapse
madvise A 2M collapse
madvise A-2M 4M collapse
#--- untouched and small
A = mmap 4p at=ARENA flags=private,anon,fixed
write A 1
madvise A 4p collapse
#--- full
A = mmap 4M at=ARENA flags=private,anon,fixed
fill A..A+4M step 1p 1
madvise A 4M collapse
read A+5p
write A+5p 9
madvise A 4M collapse
#--- part of a range
A = mmap 4M at=ARENA flags=private,anon,fixed
write A 1
madvise A+1p 2M collapse
madvise A 4M collapse
madvise A 2M collapse
#--- emptied table
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
madvise A 2M dontneed
madvise A 2M collapse
read A
#--- one page left
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
madvise A 300p dontneed
madvise A+301p 211p dontneed
madvise A 2M collapse
read A+300p
#--- read only, zero pages
A = mmap 2M at=ARENA flags=private,anon,fixed
touch A..A+2M step 1p read
madvise A 2M collapse
read A
#--- read-only area
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+1M step 1p 1
mprotect A 2M r
madvise A 2M collapse
mprotect A 2M none
madvise A 2M collapse
#--- none
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+1M step 1p 1
mprotect A 2M none
madvise A 2M collapse
mprotect A 2M rw
read A
#--- nohugepage
A = mmap 4M at=ARENA flags=private,anon,fixed
fill A..A+4M step 1p 1
madvise A 2M nohugepage
madvise A 4M collapse
madvise A+2M 2M collapse
madvise A 2M hugepage
madvise A 4M collapse
#--- hole
A = mmap 8M at=ARENA flags=private,anon,fixed
fill A..A+8M step 1p 1
munmap A+2M 2M
madvise A 8M collapse
#--- thp disable
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
prctl thp_disable 1
madvise A 2M collapse
prctl thp_disable 0
madvise A 2M collapse
#--- fork
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
fork P
proc P { write A 5; madvise A 2M collapse; read A+1p; exit }
wait P
read A
madvise A 2M collapse
#--- fork, parent first
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
fork P
madvise A 2M collapse
write A 3
proc P { read A; exit }
wait P
#--- locked
A = mmap 2M at=ARENA flags=private,anon,fixed
write A 5
mlock A 1M
madvise A 2M collapse
mlock A 2M
madvise A 2M collapse
#--- split again
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
madvise A 2M collapse
madvise A+5p 1p dontneed
madvise A 2M collapse
munmap A+10p 1p
madvise A 2M collapse
#--- freed lazily
A = mmap 2M at=ARENA flags=private,anon,fixed
fill A..A+2M step 1p 1
madvise A 2M free
madvise A 2M collapse
read A
