#!/usr/bin/env bats
# quire workload, and quire run on the standard workloads.
load helpers.bash

cow() {
	"$QUIRE" run anon-cow-seq --machine laptop --tasks 2 --size 12M --set transparent_hugepage.enabled=always "$@"
}

@test "list names each workload, show says what it is" {
	"$QUIRE" workload list --json list.json >out.txt
	well_formed list.json
	for w in anon-cow-seq anon-cow-rand anon-w-seq anon-w-rand anon-r-seq anon-r-rand anon-cow-seq-mt page_fault1 page_fault2 \
		page_fault3 malloc1 mmap1 mmap2 brk1 tlb_flush1 tlb_flush2 tlb_flush3 anon-wx-seq-mt page_fault1-mt pmbench; do
		grep -q "^$w " out.txt || { echo "$w is missing"; return 1; }
		grep -q "\"name\": \"$w\"" list.json
		"$QUIRE" workload show $w | grep -q "^$w: "
	done
	! awk 'length > 120' out.txt | grep -q . || false
	"$QUIRE" workload show anon-cow-seq | grep -q 'usemem -n TASKS --prealloc --prefault'
	"$QUIRE" workload show page_fault1 | grep -q 'will-it-scale'
	"$QUIRE" workload show page_fault1 --json - 2>/dev/null | grep -q '"size_bytes": 134217728'
}

@test "what is asked for wrongly is said in one line" {
	fails 2 'list or show NAME?' "$QUIRE" workload
	fails 2 'did you mean show?' "$QUIRE" workload shwo anon-w-seq
	fails 2 'did you mean anon-w-seq?' "$QUIRE" workload show anon-w-sec
	fails 2 'did you mean page_fault1?' "$QUIRE" run page_fautl1
	fails 2 'normal, normal_ih, pareto or zipf' "$QUIRE" run pmbench --pattern zip
	fails 2 'a number such as 4096 or 1.161' "$QUIRE" run pmbench --pattern pareto --shape 1..5
	fails 2 'show takes one name' "$QUIRE" workload show
	fails 2 'none, spread or compact' "$QUIRE" run anon-w-seq --placement far
	fails 2 '--tasks is for the standard workloads' "$QUIRE" run stream --tasks 2
	fails 2 'a time in seconds' "$QUIRE" run page_fault1 --seconds 2min
	fails 1 'multiple of 8' "$QUIRE" run anon-w-seq --step 12 --machine laptop
	fails 1 "usemem's" "$QUIRE" run page_fault1 --think 5 --machine laptop
	fails 2 'replayed on a model' "$QUIRE" run stream --machine host
}

@test "copy on write: counts, contents, the table and the JSON" {
	cow --vary quire.huge_cow=copy,split --check --json out.json >out.txt
	well_formed out.json
	grep -q '"kind": "workload"' out.json
	grep -q '2 tasks in 3 processes' out.txt
	grep -q 'All figures are modelled' out.txt
	! awk 'length > 100' out.txt | grep -q . || false
	[ "$(number out.json quire_fault_cow_2m 1)" = 4 ]
	[ "$(number out.json quire_fault_cow_2m 2)" = 0 ]
	[ "$(number out.json quire_fault_cow_4k 2)" = 2048 ]
	[ "$(number out.json pages_wrong 1)" = 0 ]
	[ "$(number out.json pages_checked 1)" = 3072 ]
	[ "$(number out.json first_touch_count_2m 1)" = 4 ]
	for m in throughput_KBps throughput_KBps_task_median rate_ratio user_time_ns system_time_ns work_time_ns ipc; do
		[ "$(grep -c "\"$m\":" out.json)" = 2 ] || { echo "$m is missing"; return 1; }
	done
}

@test "the same request gives the same bytes" {
	for i in 1 2; do
		"$QUIRE" run anon-w-rand --machine laptop --tasks 3 --size 6M --step 64 --stagger 10us --seed 5 --jobs $i \
			--vary transparent_hugepage.enabled=never,always --json $i.json >$i.txt
	done
	cmp 1.json 2.json
	cmp 1.txt 2.txt
}

@test "operations by time and by number" {
	"$QUIRE" run page_fault1 --machine laptop --tasks 2 --size 4M --ops 500 -q --json n.json -s transparent_hugepage.enabled=never
	[ "$(number n.json quire_fault_anon_4k 1)" = 1000 ]
	[ "$(number n.json operations 1)" = 1000 ]
	[ "$(number n.json operations_per_s 1)" -gt 0 ]
	"$QUIRE" run mmap1-mt --machine laptop --tasks 2 --seconds 0.0005 -q --json t.json
	[ "$(number t.json work_time_ns 1)" -ge 600000 ]
	[ "$(number t.json work_time_ns 1)" -lt 700000 ]
}

@test "on this computer: the same counts, figures that are called measured" {
	"$QUIRE" run anon-w-seq --machine host --tasks 2 --size 16M --check --set transparent_hugepage.enabled=always --json out.json >out.txt
	grep -q 'All figures are measured' out.txt
	grep -q '"kind": "host"' out.json
	[ "$(number out.json quire_fault_anon_2m 1)" = 8 ]
	[ "$(number out.json pages_wrong 1)" = 0 ]
	! grep -q '"llc_misses"' out.json
}

@test "a swap device, on a model and on this computer" {
	"$QUIRE" run anon-w-seq --machine laptop --tasks 1 --size 1M --swap 64M -q
	"$QUIRE" run anon-w-seq --machine host --memory 256M --tasks 1 --size 1M --swap 64M -q
	TMPDIR=/nonexistent fails 1 'no swap file of 67108864 bytes in /nonexistent' "$QUIRE" run anon-w-seq --machine host --memory 256M --size 1M --swap 64M
	fails 2 '--swap 1X' "$QUIRE" run anon-w-seq --swap 1X
}
