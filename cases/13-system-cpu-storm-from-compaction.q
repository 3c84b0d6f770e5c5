title "System CPU storm from compaction"
source "structureddata.org, Linux 6 Transparent Huge Pages and Hadoop Workloads"
pending "compaction"
