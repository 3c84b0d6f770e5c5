title "Zeroing and tail init of giant pages"
source "huge-page pre-zeroing mechanism, hugetlb: skip initialization of gigantic tail struct pages, spdk/spdk#2552"
pending "pools that an idle worker clears ahead, and descriptors of giant pages that are set up late or not at all"
