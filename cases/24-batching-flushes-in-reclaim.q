title "Batching flushes in reclaim"
source "linux-mm, RFC on batching reclaim TLB flushes, msg87192"
pending "reclaim"
