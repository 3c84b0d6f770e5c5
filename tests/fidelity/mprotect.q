# mprotect: errors, splitting and merging, what is left of rights.
#--- errors
A = mmap 4p at=ARENA flags=private,anon,fixed
mprotect A+1 1p r
mprotect A 0 r
mprotect A 1p 255
mprotect A 1p 16
mprotect A 1p r+growsdown
mprotect A 1p r+growsup
mprotect A 1p r+growsdown+growsup
mprotect A 0xffffffffffffffff r
mprotect A 0xfffffffffffff000 r
mprotect ARENA+16p 1p r
mprotect A 8p r
mprotect ARENA-1p 2p none
mprotect 0x7ffffffff000 1p r
mprotect A 1p 8
#--- halves
A = mmap 8p at=ARENA flags=private,anon,fixed
touch A..A+4p write
mprotect A 8p r
write A 1
read A
mprotect A+2p 2p rw
write A+2p 2
write A+1p 2
mprotect A 8p rw
write A 3
mprotect A+4p 4p none
read A+4p
mprotect A 4p none
read A
write A 4
mprotect A 8p rw
read A
read A+2p
#--- each right
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+8p 10
mprotect A 1p none
mprotect A+1p 1p r
mprotect A+2p 1p w
mprotect A+3p 1p x
mprotect A+4p 1p rx
mprotect A+5p 1p rwx
mprotect A+6p 1p rw
read A
read A+1p
read A+2p
read A+3p
write A+1p 1
write A+2p 1
write A+3p 1
write A+4p 1
write A+5p 1
mprotect A 8p rw
read A+3p
#--- a hole ends it
A = mmap 4p at=ARENA flags=private,anon,fixed
B = mmap 4p at=ARENA+6p flags=private,anon,fixed
mprotect A 10p r
mprotect B 4p r
#--- merging again
A = mmap 8p at=ARENA flags=private,anon,fixed
mprotect A+2p 2p r
mprotect A+2p 2p rw
write A 1
mprotect A+2p 2p r
mprotect A+2p 2p rw
write A+6p 1
mprotect A+4p 4p r
mprotect A+4p 4p rw
B = mmap 4p at=ARENA+8p flags=private,anon,fixed prot=r
write A+7p 1
mprotect B 4p rw
C = mmap 4p at=ARENA+12p flags=private,anon,fixed prot=r
D = mmap 4p at=ARENA+16p flags=private,anon,fixed
write D 4
mprotect C 4p rw
write C 5
#--- zero page
A = mmap 4p at=ARENA flags=private,anon,fixed
touch A..A+4p read
mprotect A 4p r
mprotect A 4p rw
write A 1
mprotect A 4p none
mprotect A 4p rw
read A+1p
write A+1p 1
#--- shared
A = mmap 4p at=ARENA flags=shared,anon,fixed
write A 1
mprotect A 4p r
write A 2
read A
mprotect A 4p rw
write A 3
read A+1p
#--- promises
A = mmap 4p at=ARENA flags=private,anon,fixed prot=r
mprotect A 4p rw
mprotect A 4p r
mprotect A 2p rw
write A 1
mprotect A 4p r
B = mmap 4p at=ARENA+8p flags=private,anon,fixed,noreserve prot=r
mprotect B 4p rw
#--- huge
A = mmap 8M at=ARENA flags=private,anon,fixed
madvise A 8M hugepage
touch A..A+8M step 2M write
mprotect A 2M r
write A 1
mprotect A 2M rw
write A 1
mprotect A+2M 1p r
write A+2M+1p 1
write A+2M 1
mprotect A+4M 2M none
read A+4M
mprotect A+4M 2M rw
read A+4M
mprotect A 8M r
mprotect A 8M rw
#--- of files, of what a child shares, and of what is populated
file create F 4p plain
A = mmap 4p at=ARENA flags=shared,fixed file=F prot=r
B = mmap 4p at=ARENA+8p flags=private,fixed file=F prot=r
touch A..A+4p read
mprotect A 4p rw
write A 1
msync A 4p sync
mprotect A 4p r
mprotect A 4p rw
write A 2
mprotect B 4p rw
write B 3
fork P
proc P: mprotect B 2p none
proc P: read B -> SIGSEGV
mprotect B 4p r
write B 3 -> SIGSEGV
mlock B 4p
mprotect B 4p rw
mprotect B 4p none
