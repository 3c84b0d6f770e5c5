title "Memory charged but not in RSS: the deferred-split queue"
source "google/cadvisor#3587"
pending "the split of queued huge pages (the queue's length and what it holds are counted: ledger.queued, ledger.unmapped)"
