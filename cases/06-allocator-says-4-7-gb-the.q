title "Allocator says 4.7 GB, the pod is charged 7.7 GB"
source "ClickHouse/ClickHouse#80606, ClickHouse/ClickHouse#98473, facebook/jemalloc#46"
pending "khugepaged, memory limits, the split of underused huge pages"
