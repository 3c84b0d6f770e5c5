title "Freed holes refilled by collapse"
source "gperftools/gperftools#1073"
pending "khugepaged (max_ptes_none)"
