title "mTHP: fewer faults, bounded waste"
source "commit 19eaf44954df (mm: thp: support allocation of anonymous multi-size THP), dfinity/ic#4671"
pending "huge pages of orders other than 9"
