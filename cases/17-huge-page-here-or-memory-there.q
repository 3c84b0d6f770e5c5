title "Huge page here or memory there"
source "mm: thp: relax __GFP_THISNODE for MADV_HUGEPAGE mappings"
pending "reclaim, swap, and where a huge page may come from by node"
