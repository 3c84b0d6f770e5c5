title "What part of the stall is zeroing?"
source "scylladb/scylladb#8828, scylladb/scylladb#7989, redpanda-data/redpanda#10418"
pending "reclaim and compaction inside faults (a fault's wait, allocation, clearing, copying and the rest are timed: phase_ns)"
