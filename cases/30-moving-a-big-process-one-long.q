title "Moving a big process: one long hold or many short"
source "kubewharf/katalyst-core#477, Atoptool/atop#155"
pending "migration"
