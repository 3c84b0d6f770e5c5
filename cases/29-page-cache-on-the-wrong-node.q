title "Page cache on the wrong node stays there"
source "ggml-org/llama.cpp#1556, ggml-org/llama.cpp#13335, kubernetes/kubernetes#138523"
pending "memory policies, and moving of pages"
