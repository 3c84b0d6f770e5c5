# Early boot initialises what it needs, on demand and by whole sections; then the nodes' workers do the rest side by side.
title "Page-structure init on terabyte machines"
source "cover letter v4 of the parallel struct page init series, Delay initializing of large sections of memory, initialize pages on demand during boot"
note "1:256 of the report's 1 TiB on two nodes instead of four: 1,048,576 of 268,435,456 descriptors of 64 bytes. Early boot wants 2 % of memory, then 6 %."
machine x86-384g-2n
variant one_each  { set quire.memmap_init chunked }
variant six_early { set quire.memmap_init chunked }
variant two_each  { set quire.memmap_init zone_job }
variant six_each  { set quire.memmap_init zone_job }

N = 1T/256/4096
W = 1
E = N*2/100
if variant.six_early { E = N*6/100 }
if variant.two_each { W = 2 }
if variant.six_each { W = 6 }
boot N*4096 workers=2*W early=E*4096

expect boot.descriptors*256 == 268435456
expect boot.descriptors*256*64 == 16G
# Each once: whoever is done twice makes more, and every free frame is on the lists, which count their own.
expect boot.free == N-boot.reserved
# Reserved are what the descriptors themselves take, a kernel of 16 MiB and an initial file system of 32 MiB.
expect boot.reserved == N/64+4096+8192
# On demand: whole sections of 32768 frames, of which N/128 are reserved, and not one more than was wanted. Afterwards nothing grows any more: the call would fail.
F = boot.early-boot.reserved
expect F >= E
expect F-E < 32768
expect (boot.grown+N/128)%32768 == 0
expect boot.early-boot.grown == 32768+N/64
# Ready when the slowest worker is: the largest of all, not the sum.
expect boot.ready_ns-boot.slowest_ns < boot.slowest_ns/50
expect boot.ready_ns*2*W < boot.sum_ns*15/10
if boot.sum_ns > 0 { report "descriptors a second and worker" (boot.descriptors-boot.early)*1000/(boot.sum_ns/1000000) "/s" "about 58,000,000" }
report "ready, all workers" boot.ready_ns "ns" "1,116 to 1,148 ms for 256 GiB a node"
