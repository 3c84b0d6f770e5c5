title "System CPU storm from compaction"
source "structureddata.org, Linux 6 Transparent Huge Pages and Hadoop Workloads"
pending "threads that fault at the same time: scripts make one call after another (thpscale and quire check have them), and acquisitions of the zone's and the list's locks are not counted apart"
