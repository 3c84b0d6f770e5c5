title "Taking a memory device offline"
source "pmem/ndctl#256, pmem/ndctl#110, cxlbench/cxlbench#3"
pending "memory that can be taken offline"
