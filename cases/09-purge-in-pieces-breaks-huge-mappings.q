title "Purge in pieces breaks huge mappings"
source "jemalloc/jemalloc#1950, jemalloc/jemalloc#243, facebook/jemalloc#23"
pending "collapse, and base pages of 64 KiB with huge pages of 512 MiB"
