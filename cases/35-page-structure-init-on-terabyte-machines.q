title "Page-structure init on terabyte machines"
source "cover letter v4 of the parallel struct page init series"
pending "initialisation by several workers, and on demand by sections while they run"
