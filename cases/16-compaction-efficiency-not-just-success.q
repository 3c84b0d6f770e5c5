title "Compaction efficiency, not just success"
source "linux-mm, cover letter of a compaction series, msg169949"
pending "compaction"
