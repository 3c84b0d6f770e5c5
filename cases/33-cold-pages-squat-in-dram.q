title "Cold pages squat in DRAM"
source "RFC v3, DAMON based tiered memory management for CXL memory"
pending "demotion, and monitoring of accesses"
