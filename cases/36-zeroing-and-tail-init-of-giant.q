title "Zeroing and tail init of giant pages"
source "huge-page pre-zeroing mechanism, hugetlb: skip initialization of gigantic tail struct pages, spdk/spdk#2552"
pending "giant pages (hugetlb)"
