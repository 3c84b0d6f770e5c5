title "No order-9 block anywhere"
source "jj-vcs/jj#9708, microsoft/mimalloc#1323"
pending "compaction, and free lists that can be loaded"
