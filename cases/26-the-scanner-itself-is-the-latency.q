title "The scanner itself is the latency"
source "deepseek-ai/DeepEP#624, deepseek-ai/DeepEP#644, scylladb/scylladb#1120"
pending "NUMA balancing"
