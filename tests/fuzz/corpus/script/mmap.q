# mmap: each error of the man page, and the edges around it.
#--- errors
mmap 0
mmap 0 flags=private
mmap 1p flags=anon
mmap 1p flags=none
mmap 1p flags=private
mmap 1p flags=shared
mmap 1p flags=shared_validate,anon
mmap 1p flags=private,anon off=1
mmap 1p flags=private,anon off=4095
mmap 1p flags=private,anon off=1p
mmap 0xffffffffffffffff
mmap 0xfffffffffffff000
mmap 0x7fffffffe000
mmap 0x800000000000
mmap 0x7ffffffff000
mmap 1p flags=private,anon,fixed at=0x7ffffffff000
mmap 1p flags=private,anon,fixed at=0x800000000000
mmap 1p flags=private,anon,fixed at=0xfffffffffffff000
mmap 1p flags=private,anon,fixed at=0
mmap 1p flags=private,anon,fixed at=4096
mmap 1p flags=private,anon,fixed at=ARENA+1
mmap 1p flags=private,anon,fixed at=ARENA+4095
mmap 1p flags=private,anon,fixed_noreplace at=ARENA+8
mmap 1p flags=shared,anon,growsdown
mmap 1p prot=255
mmap 1p flags=private,anon,hugetlb,huge_1g
#--- lengths
A = mmap 1
B = mmap 4095
C = mmap 4097
D = mmap 1p
write A 1
write B 2
write C+1p 3
write D 4
munmap A 1
munmap C 4097
#--- rights
A = mmap 4p prot=none
B = mmap 4p prot=r
C = mmap 4p prot=w
D = mmap 4p prot=x
E = mmap 4p prot=rx
F = mmap 4p prot=rwx
read A
write A 1
read B
write B 1
read C
write C+1p 1
read D
write D 1
read E
write E 1
write F 1
read F
#--- placing
A = mmap 4p
B = mmap 4p
C = mmap 4p prot=r
D = mmap 4p
munmap B 4p
E = mmap 2p
F = mmap 2p
G = mmap 1p prot=none
#--- hints
A = mmap 4p at=ARENA
B = mmap 4p at=ARENA
C = mmap 4p at=ARENA+4p
D = mmap 4p at=ARENA+100p+5
E = mmap 4p at=1
F = mmap 4p at=0x10000
G = mmap 4p at=0x7ffffffff000
#--- fixed
A = mmap 8p at=ARENA flags=private,anon,fixed
touch A..A+8p write
B = mmap 2p at=ARENA+3p flags=private,anon,fixed
touch A..A+8p read
C = mmap 2p at=ARENA+7p flags=private,anon,fixed
D = mmap 10p at=ARENA flags=private,anon,fixed prot=r
read D
write D 1
E = mmap 1p at=ARENA+4p flags=shared,anon,fixed
write E 5
#--- noreplace
A = mmap 4p at=ARENA flags=private,anon,fixed_noreplace
mmap 4p at=ARENA flags=private,anon,fixed_noreplace
mmap 1p at=ARENA+3p flags=private,anon,fixed_noreplace
mmap 8p at=ARENA-4p flags=private,anon,fixed_noreplace
B = mmap 1p at=ARENA+4p flags=private,anon,fixed_noreplace
C = mmap 1p at=ARENA-1p flags=private,anon,fixed_noreplace
mmap 4p at=ARENA flags=private,anon,fixed,fixed_noreplace
#--- merging
A = mmap 2p at=ARENA flags=private,anon,fixed
B = mmap 2p at=ARENA+2p flags=private,anon,fixed
C = mmap 2p at=ARENA+6p flags=private,anon,fixed
D = mmap 2p at=ARENA+4p flags=private,anon,fixed
E = mmap 2p at=ARENA+8p flags=private,anon,fixed prot=r
F = mmap 2p at=ARENA+10p flags=private,anon,fixed,noreserve
G = mmap 2p at=ARENA+12p flags=private,anon,fixed,noreserve
H = mmap 2p at=ARENA+14p flags=shared,anon,fixed
I = mmap 2p at=ARENA+16p flags=shared,anon,fixed
#--- merging after touching
A = mmap 2p at=ARENA flags=private,anon,fixed
B = mmap 2p at=ARENA+4p flags=private,anon,fixed
write A 1
write B 2
C = mmap 2p at=ARENA+2p flags=private,anon,fixed
write C 3
munmap C 2p
C = mmap 2p at=ARENA+2p flags=private,anon,fixed
#--- low
A = mmap 1p flags=private,anon,bit32
B = mmap 1p flags=private,anon,bit32
write A 1
read B
C = mmap 3p flags=private,anon,bit32
mmap 0x80000000 flags=private,anon,bit32
#--- shared anonymous
A = mmap 4p flags=shared,anon
read A
write A+1p 7
read A+1p
touch A..A+4p write
munmap A+1p 1p
B = mmap 4p flags=shared,anon prot=r
read B
write B 1
#--- noreserve, stack, populate
A = mmap 4p flags=private,anon,noreserve
write A 1
B = mmap 4p flags=private,anon,stack
write B 1
C = mmap 4p flags=private,anon,populate
read C+3p
D = mmap 4p flags=private,anon,populate prot=r
write D 1
E = mmap 4p flags=private,anon,populate prot=none
F = mmap 4p flags=shared,anon,populate
G = mmap 4p flags=private,anon,populate,nonblock
#--- large
A = mmap 1G prot=none
B = mmap 512M flags=private,anon,noreserve
write B+256M 1
mmap 4G
C = mmap 1G prot=none
munmap A 1G
