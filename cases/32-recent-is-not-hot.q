title "Recent is not hot"
source "cover letter of the hot-page-selection series, linux-mm msg296064"
pending "NUMA balancing between tiers"
