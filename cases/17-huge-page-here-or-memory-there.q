title "Huge page here or memory there"
source "mm: thp: relax __GFP_THISNODE for MADV_HUGEPAGE mappings"
pending "where a huge page may come from by node is not a setting yet (a huge fault tries its node, then the others), memory policies, and a swap device in cases"
