# mremap: errors, growing, shrinking, moving, duplicates, DONTUNMAP.
#--- errors
A = mmap 4p at=ARENA flags=private,anon,fixed
mremap A+1 1p 2p
mremap A 1p 0
mremap A 1p 1p flags=8
mremap A 1p 1p flags=fixed to=ARENA+100p
mremap A 1p 1p flags=dontunmap
mremap A 1p 2p flags=maymove,dontunmap
mremap A 1p 1p flags=maymove,fixed to=ARENA+1
mremap A 1p 1p flags=maymove,fixed to=ARENA
mremap A 4p 4p flags=maymove,fixed to=ARENA+2p
mremap A 2p 4p flags=maymove,fixed to=ARENA+1p
mremap A 1p 1p flags=maymove,fixed to=0x7ffffffff000
mremap A 1p 1p flags=maymove,fixed to=0
mremap A 0 1p
mremap A 0 1p flags=none
mremap ARENA+100p 1p 2p
mremap A 1p 0xffffffffffffffff
mremap A 1p 0xfffffffffffff000
mremap A 1p 0x800000000000
mremap A 8p 16p
mremap A+2p 4p 8p
#--- shrinking
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+8p 1
mremap A 8p 6p
mremap A 6p 6p
mremap A 2p 1p
mremap A 1p 1
mremap A 1p 4095
read A
#--- growing in place
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
B = mremap A 4p 8p flags=none
write A+7p 5
mmap 1p at=ARENA+10p flags=private,anon,fixed
mremap A 8p 12p flags=none
mremap A 8p 10p flags=none
mremap A 4p 6p flags=none
mremap A+4p 6p 8p flags=none
#--- growing by moving
A = mmap 4p at=ARENA flags=private,anon,fixed
mmap 1p at=ARENA+4p flags=private,anon,fixed prot=r
fill A..A+4p 1
B = mremap A 4p 8p
read B
read B+3p
read A
C = mremap B+1p 1p 3p
read C
#--- moving
A = mmap 8p at=ARENA flags=private,anon,fixed
fill A..A+8p 1
B = mremap A 8p 8p flags=maymove,fixed to=ARENA+100p
read B
read A
C = mremap B+2p 2p 2p flags=maymove,fixed to=ARENA+200p
read C
D = mremap C 2p 2p flags=maymove,fixed to=ARENA+102p
read B+2p
mremap B 8p 4p flags=maymove,fixed to=ARENA+50p
mremap ARENA+50p 4p 8p flags=maymove,fixed to=ARENA+300p
read ARENA+301p
write ARENA+307p 1
#--- moving onto something
A = mmap 4p at=ARENA flags=private,anon,fixed
B = mmap 8p at=ARENA+10p flags=private,anon,fixed
fill A..A+4p 1
fill B..B+8p 100
mremap A 4p 4p flags=maymove,fixed to=ARENA+12p
read B
read B+2p
read B+7p
#--- untouched memory and merging
A = mmap 4p at=ARENA flags=private,anon,fixed
B = mmap 4p at=ARENA+8p flags=private,anon,fixed
mremap A 4p 4p flags=maymove,fixed to=ARENA+4p
write B 1
mremap ARENA+4p 4p 4p flags=maymove,fixed to=ARENA
mremap ARENA 4p 4p flags=maymove,fixed to=ARENA+12p
#--- dontunmap
A = mmap 4p at=ARENA flags=private,anon,fixed
fill A..A+4p 1
B = mremap A 4p 4p flags=maymove,dontunmap
read A
read B
write A 9
read B
C = mremap B+1p 2p 2p flags=maymove,fixed,dontunmap to=ARENA+20p
read B+1p
read C
D = mmap 4p flags=shared,anon
write D 1
E = mremap D 4p 4p flags=maymove,dontunmap
read D
read E
#--- duplicates of shared memory
A = mmap 4p at=ARENA flags=shared,anon,fixed
fill A..A+4p 1
B = mremap A 0 4p
read B
write B+1p 77
read A+1p
C = mremap A+2p 0 2p flags=maymove,fixed to=ARENA+50p
read C
D = mremap A 0 8p
read D+3p
read D+7p
#--- locked
A = mmap 4p at=ARENA flags=private,anon,fixed
mlock A 4p
B = mremap A 4p 8p flags=none
C = mremap A 8p 8p flags=maymove,fixed to=ARENA+50p
D = mremap C 8p 8p flags=maymove,dontunmap
mremap D 8p 2p
#--- rights go along
A = mmap 6p at=ARENA flags=private,anon,fixed
fill A..A+6p 1
mprotect A+2p 2p r
mremap A+2p 2p 2p flags=maymove,fixed to=ARENA+20p
write ARENA+20p 1
read ARENA+20p
#--- huge
A = mmap 4M at=ARENA flags=private,anon,fixed
madvise A 4M hugepage
touch A..A+4M step 2M write
B = mremap A 4M 4M flags=maymove,fixed to=ARENA+64M
C = mremap B 2M 2M flags=maymove,fixed to=ARENA+128M
D = mremap B+2M 2M 2M flags=maymove,fixed to=ARENA+256M+1p
write D 1
mremap C 2M 1M
mremap C 1M 4M flags=none
touch C..C+4M step 1M write

#--- several areas at once
A = mmap 4p at=ARENA flags=private,fixed,anon
B = mmap 3p at=ARENA+6p flags=private,fixed,anon prot=r
C = mmap 2p at=ARENA+9p flags=shared,fixed,anon
fill A..A+4p 10
write C 20
D = mmap 20p at=ARENA+30p flags=private,fixed,anon
fill D..D+20p 40
mremap A+1p 9p 9p flags=maymove,fixed to=ARENA+31p
read ARENA+31p
read ARENA+34p
read ARENA+39p
mremap ARENA+31p 9p 10p flags=maymove,fixed to=ARENA -> EFAULT
mremap ARENA+31p 9p 9p flags=maymove -> EFAULT
mremap ARENA+31p 9p 9p flags=maymove,fixed to=ARENA+35p -> EINVAL
mremap ARENA+5p 9p 9p flags=maymove,fixed to=ARENA+60p -> EFAULT
mremap ARENA+31p 9p 9p flags=maymove,fixed,dontunmap to=ARENA+70p
touch ARENA+31p..ARENA+33p write
#--- more locked than allowed
A = mmap 4M at=ARENA flags=private,anon,fixed
mlock A 4M
mremap A 4M 7M
mremap A 4M 9M
mremap A 4M 16M flags=maymove
munlock A 4M
mremap A 4M 9M
#--- more than the address space may be
A = mmap 1p at=ARENA flags=private,anon,fixed,noreserve
mremap A 1p 5G
mremap A 1p 0x7fffffffffff
mremap A 1p 1p flags=maymove,fixed,dontunmap to=ARENA+1
mremap A 4096 4096 flags=fixed,dontunmap to=ARENA+8p
mremap A+1p 1p 1p
mremap ARENA+64p 1p 1p flags=maymove,fixed to=ARENA
