title "One unmovable page per block: seconds for one fault"
source "commit 75f30861a12a (mm, thp: avoid excessive compaction latency during fault)"
pending "compaction"
