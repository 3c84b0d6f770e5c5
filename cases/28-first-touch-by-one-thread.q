title "First touch by one thread"
source "blog.jcole.us, The MySQL swap insanity problem, polardb/PolarDB-for-PostgreSQL#692, chapel-lang/chapel#17405"
pending "memory policies, reclaim and swap"
