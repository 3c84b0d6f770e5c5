#!/usr/bin/env bats
# quire run: the table, the JSON, and that the same request gives the same bytes.
load helpers.bash

@test "the table says machine, that it is modelled, and fits 100 columns" {
	small --vary transparent_hugepage.enabled=never,always >out.txt
	grep -q 'machine: laptop' out.txt
	grep -q 'All figures are modelled' out.txt
	grep -q '^never ' out.txt
	grep -q '^always ' out.txt
	! awk 'length > 100' out.txt | grep -q . || false
	! grep -q "$(printf '\033')" out.txt
}

@test "without --machine a machine is chosen and named" {
	"$QUIRE" run stream --size 4M --count 1k >out.txt
	grep -Eq '^machine: [a-z0-9-]+ \(' out.txt
}

@test "a run that is shorter than khugepaged's period says so" {
	small | grep -q khugepaged
}

@test "JSON has the documented shape" {
	small --vary transparent_hugepage.enabled=never,always --set vm.overcommit_memory=1 --json out.json >/dev/null
	well_formed out.json
	grep -q '"schema": 1' out.json
	grep -q '"command": "run"' out.json
	grep -q '"kind": "model"' out.json
	grep -q '"name": "laptop"' out.json
	[ "$(grep -c '"transparent_hugepage.enabled"' out.json)" = 2 ]
	[ "$(grep -c '"vm.overcommit_memory": "1"' out.json)" = 2 ]
	for m in time_ns time_ratio pgfault fault_latency_p50_ns fault_latency_p99_ns fault_latency_max_ns tlb_misses_4k tlb_misses_2m \
		walk_ns_4k walk_ns_2m rss_peak_bytes rss_final_bytes bytes_cleared bytes_copied huge_share; do
		[ "$(grep -c "\"$m\":" out.json)" = 2 ] || { echo "$m is missing"; return 1; }
	done
}

@test "what huge pages do to a stream" {
	small --vary transparent_hugepage.enabled=never,always --json out.json -q
	[ "$(number out.json quire_fault_anon_4k 1)" = 1024 ]
	[ "$(number out.json quire_fault_anon_2m 1)" = 0 ]
	[ "$(number out.json quire_fault_anon_4k 2)" = 0 ]
	[ "$(number out.json quire_fault_anon_2m 2)" = 2 ]
	[ "$(number out.json references 2)" = 101024 ]
	[ "$(number out.json rss_peak_bytes 1)" = 4194304 ]
	[ "$(number out.json time_ns 2)" -lt "$(number out.json time_ns 1)" ]
}

@test "the same request gives the same bytes, however many rows run at once" {
	for jobs in 1 2; do
		small --vary transparent_hugepage.enabled=never,madvise,always --profile --jobs $jobs --json $jobs.json >$jobs.txt
	done
	cmp 1.json 2.json
	cmp 1.txt 2.txt
}

@test "JSON on standard output sends the table to standard error" {
	small --json - >out.json 2>err.txt
	well_formed out.json
	grep -q 'All figures are modelled' err.txt
	small --quiet --json - >out.json 2>err.txt
	[ ! -s err.txt ]
}

@test "no progress and no colour outside a terminal" {
	small >out.txt 2>err.txt
	[ ! -s err.txt ]
}

@test "the profile adds up to about 100 per cent" {
	small --profile >out.txt
	sum=$(awk '/^share of CPU time/ { on = 1; next } /^$/ { on = 0 } on && / %$/ { s += $(NF - 1) } END { print int(s + 0.5) }' out.txt)
	[ "$sum" -ge 99 ] && [ "$sum" -le 101 ]
}

@test "a JSON file is there whole or not at all" {
	echo old >out.json
	small --json out.json >/dev/null
	well_formed out.json
	[ "$(ls | grep -c out.json)" = 1 ]
	echo old >out.json
	fails 1 'nosuch.qtr' "$QUIRE" run nosuch.qtr --json out.json
	[ "$(cat out.json)" = old ]
	[ "$(ls | grep -c out.json)" = 1 ]
}

@test "Ctrl-C ends cleanly with what there is" {
	"$QUIRE" run random --size 16M --count 1G --machine laptop --json out.json >out.txt 2>err.txt &
	pid=$!
	sleep 2
	kill -INT $pid
	code=0
	wait $pid || code=$?
	[ "$code" = 1 ]
	well_formed out.json
	grep -q 'interrupted' out.txt
	grep -q '"finished": false' out.json
}
