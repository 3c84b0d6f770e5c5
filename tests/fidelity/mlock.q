# mlock, mlock2, munlock, mlockall: errors, limits, what is populated.
#--- errors
A = mmap 4p at=ARENA flags=private,anon,fixed
mlock A 8p
mlock ARENA+16p 1p
mlock A 0
mlock A 0xffffffffffffffff
mlock A+1 1
mlock2 A 1p 2
mlock2 A 1p none
munlock ARENA+16p 1p
munlock A 8p
munlock A 0xffffffffffffffff
mlockall none
mlockall onfault
mlockall 8
#--- what is there and what comes
A = mmap 4p at=ARENA flags=private,anon,fixed
write A 1
mlock A 4p
munlock A+1p 1p
mlock2 A 4p onfault
munlock A 4p
B = mmap 4p at=ARENA+8p flags=private,anon,fixed
mlock2 B 4p onfault
write B+1p 1
C = mmap 4p at=ARENA+16p flags=private,anon,fixed,locked
read C
#--- rights
A = mmap 2p at=ARENA flags=private,anon,fixed prot=none
B = mmap 2p at=ARENA+4p flags=private,anon,fixed prot=r
C = mmap 2p at=ARENA+8p flags=shared,anon,fixed
D = mmap 2p at=ARENA+12p flags=private,anon,fixed prot=w
mlock A 2p
mlock B 2p
mlock C 2p
mlock D 2p
mprotect A 2p rw
mprotect B 2p rw
mprotect C 2p r
#--- over the limit
A = mmap 64M at=ARENA flags=private,anon,fixed,noreserve
mlock A 64M
mlock A 1M
mlock A 1M
mmap 64M at=ARENA+128M flags=private,anon,fixed,locked
mmap 1M flags=private,anon,locked
mlock A+8M 64M
munlock A 64M
#--- holes
A = mmap 2p at=ARENA flags=private,anon,fixed
B = mmap 2p at=ARENA+4p flags=private,anon,fixed
mlock A 6p
munlock A 6p
mlock A+1p 1
#--- all
A = mmap 4p at=ARENA flags=private,anon,fixed
mlockall current
B = mmap 4p at=ARENA+8p flags=private,anon,fixed
munlockall
mlockall future
C = mmap 4p at=ARENA+16p flags=private,anon,fixed
munlockall
mlockall current,future
D = mmap 4p at=ARENA+24p flags=private,anon,fixed
munlockall
mlockall current,onfault
mlockall future,onfault
E = mmap 4p at=ARENA+32p flags=private,anon,fixed
write E 1
munlockall
#--- huge
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A 4M hugepage
mlock A 4M
munlock A+1p 1p
munlock A 4M
#--- of shared memory and files, and without rights to bring in
A = mmap 4p at=ARENA flags=shared,anon,fixed
B = mmap 4p at=ARENA+8p flags=private,anon,fixed prot=none
C = mmap 4p at=ARENA+16p flags=private,anon,fixed prot=r
file create F 2p shmem
D = mmap 4p at=ARENA+24p flags=shared,fixed file=F
mlock A 4p
mlock B 4p
mlock C 4p
mlock D 4p
mlock2 A 8p onfault
munlock B 1p
munlock A 0
mlock A 0x7fffffffffff
mlock 0 1p
munlock 0 1p
mlock2 A+8 1 onfault
mlock2 A 1p 3
