# Limits that are settings. (vm.max_map_count is not here: the process on the kernel's side has areas of its own, which count.)
#--- promises are never refused
set vm.overcommit_memory 1
A = mmap 3G
munmap A 3G
B = mmap 64M flags=private,anon,noreserve
write B 1
#--- a part of the memory
set vm.overcommit_memory 0
A = mmap 64M
mprotect A 32M r
mprotect A 32M rw
munmap A 64M
#--- how much is read ahead
set bdi.read_ahead_kb 64
file create F 4M plain
A = mmap 4M file=F flags=private prot=r
touch A+1M read
touch A+2M read
B = mmap 1M file=F flags=shared prot=r off=3M
madvise B 1M random
touch B+64p read
#--- read far ahead
set bdi.read_ahead_kb 1024
file create F 4M plain
A = mmap 4M file=F flags=private prot=r
touch A read
touch A+2M read
#--- nothing read ahead
set bdi.read_ahead_kb 0
file create F 1M plain
A = mmap 1M file=F flags=private prot=r
touch A read
touch A+64p read
