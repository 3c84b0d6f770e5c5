#!/usr/bin/env bats
# quire cases and --era, as a user sees them.
load helpers.bash

@test "all cases that can run do, exact values are right, and docs/cases.md has them" {
	"$QUIRE" cases --json out.json --markdown >out.md
	well_formed out.json
	grep -q '"wrong": 0' out.json
	grep -q '"failed": 0' out.json
	grep -q '"skipped": 0' out.json
	# Shapes depend on prices; everything else is in the page as it is.
	sed -n '/^## 1\./,$p' "$BATS_TEST_DIRNAME/../../docs/cases.md" | grep -v '| ~ |$' >page.md
	grep -v '| ~ |$' out.md >now.md
	diff page.md now.md || { echo "docs/cases.md: see its first lines for how it is made"; return 1; }
}

@test "one case: its script, expected beside found" {
	"$QUIRE" cases 3 >out.txt
	grep -q '^3  One touch per arena' out.txt
	grep -q 'ledger.unwritten == N\*511 .* 51,100 .* 51,100  = ok' out.txt
	grep -q 'A\[i\] = mmap' out.txt
	! grep -q '^7 ' out.txt
}

@test "a wrong expectation is exit code 1, and said" {
	printf 'title "t"\nA = mmap 8K\ntouch A..A+8K write\nexpect rss == 4K\n' >wrong.q
	run "$QUIRE" cases wrong.q
	[ "$status" = 1 ]
	[[ "$output" == *"rss == 4K"*"8,192"*"4,096"*"WRONG"* ]]
	run "$QUIRE" cases -q wrong.q
	[ "$status" = 1 ]
	printf 'munmap ARENA+1 4096\n' >fails.q
	run "$QUIRE" cases ./fails.q
	[ "$status" = 1 ]
	[[ "$output" == *"EINVAL"* ]]
	printf 'title "t"\nA = mmap 8K\ntouch A..A+8K write\nexpect rss == 8K\n' >right.q
	"$QUIRE" cases right.q
}

@test "what does not exist is a usage error" {
	for args in "99" "three" "--era 3 1" "--era 5.8.1 1" "--set no.such=1 1"; do
		run "$QUIRE" cases $args
		[ "$status" = 2 ] || { echo "$args: $status"; return 1; }
	done
	run "$QUIRE" cases no/such.q
	[ "$status" = 1 ]
	run "$QUIRE" cases --machine no-such 3
	[ "$status" = 2 ]
}

@test "the list has all 36, pending ones with what is missing" {
	"$QUIRE" cases --list >out.txt
	[ "$(wc -l <out.txt)" = 36 ]
	grep -q '^11-.*pending: a dirty log' out.txt
}

@test "an era sets what its kernel did; --set wins" {
	"$QUIRE" knobs --era 5.7 >out.txt
	grep -q '^quire.huge_cow=copy$' out.txt
	"$QUIRE" knobs --era 5.8 | grep -q '^quire.huge_cow=split$'
	small --era 4.18 >out.txt
	grep -q 'setting: quire.huge_copy_order=linear' out.txt
	small --era 4.18 --set quire.huge_copy_order=target_last >out.txt
	grep -q 'setting: quire.huge_copy_order=target_last' out.txt
	! grep -q 'huge_copy_order=linear' out.txt || false
	small --era 4.18 --vary quire.huge_copy_order=linear,target_last >out.txt
	run small --era 4
	[ "$status" = 2 ]
	printf 'A = mmap 4M align=2M\nwrite A 1\nfork P\nwrite A 2\nexpect faults.cow == 1; expect vmstat.quire_fault_cow_2m == 1\n' >cow.q
	"$QUIRE" script --machine null --era 5.7 cow.q
	run "$QUIRE" script --machine null --era 5.8 cow.q
	[ "$status" = 1 ]
}

@test "a run says why memory was not huge, what of it was never written, and who was interrupted" {
	small --set transparent_hugepage.enabled=always --json out.json -q
	[ "$(number out.json quire_thp_freed 1)" = 2 ]
	[ "$(number out.json quire_thp_ineligible_disabled 1)" = 0 ]
	sum=0
	for p in wait alloc clear copy map; do
		sum=$((sum + $(number out.json "fault_time_${p}_ns" 1)))
	done
	[ "$sum" = "$(number out.json fault_time_ns 1)" ]
	small --profile | grep -q 'share of time in faults'
}
