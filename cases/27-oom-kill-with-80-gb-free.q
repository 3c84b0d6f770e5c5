title "OOM kill with 80 GB free"
source "tikv/tikv#11547, intel/memtierd#106"
pending "memory policies, and who is killed"
