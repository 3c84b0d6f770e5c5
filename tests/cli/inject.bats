#!/usr/bin/env bats
# quire check inject, and --inject.
load helpers.bash

@test "every point of a script is tried and handled" {
	"$QUIRE" check inject --workload brk 2>err.txt && return 1
	grep -q 'no such script: brk' err.txt
	"$QUIRE" check inject --workload exec --json out.json >out.txt
	well_formed out.json
	awk '/^all / { exit !($2 > 20 && $3 == $2 && $4 == $2 && $5 + $6 == $2) }' out.txt
	grep -q '^failslab at brk ' out.txt
	grep -q '"failure": null' out.json
}

@test "a sample of the points is a function of the seed" {
	"$QUIRE" check inject --workload anon --count 2 --seed 3 >1.txt
	"$QUIRE" check inject --workload anon --count 2 --seed 3 >2.txt
	cmp 1.txt 2.txt
	awk 'NR > 1 && !/^all/ && $(NF - 3) > 2 { exit 1 }' 1.txt
}

@test "the lists have kinds, scripts and sites" {
	"$QUIRE" check inject --list >out.txt
	for w in fail_page_alloc failslab fail_make_request mremap fault_huge; do
		grep -q "$w" out.txt || { echo "$w is missing"; return 1; }
	done
}

@test "a run with injected failures says so, and counts them" {
	small --set transparent_hugepage.enabled=always --inject fail_page_alloc:order=9,times=1 --json out.json >out.txt
	grep -q '1 calls inside the engine were made to fail' out.txt
	[ "$(number out.json injected_failures 1)" = 1 ]
	[ "$(number out.json fail_page_alloc_failures 1)" = 1 ]
	[ "$(number out.json quire_fault_anon_2m 1)" = 1 ]
	small --json out.json -q
	! grep -q injected_failures out.json
}

@test "rules that mean nothing are refused" {
	for r in failslub failslab:probability=101 failslab:site=moon failslab:order=1 failslab:times; do
		run "$QUIRE" run stream --inject $r
		[ "$status" = 2 ]
		[[ "$output" == *"--inject $r:"* ]]
	done
}

@test "a script meets injected failures" {
	printf 'set transparent_hugepage.enabled never\nA = mmap 4p\ntouch A..A+4p write\nexpect result == 0\n' >t.quire
	"$QUIRE" script --machine null t.quire >out.txt
	! grep -q 'made to fail' out.txt || false
	# The third page of the four that are touched cannot be cleared.
	run "$QUIRE" script --machine null --inject fail_clear_page:site=fault_anon,nth=3 --steps t.quire
	[ "$status" = 1 ]
	[[ "$output" == *'1 calls inside the engine made to fail'* ]]
	[[ "$output" == *'t.quire:3:1: touch A..A+0x4000 write: ENOMEM'* ]]
	run "$QUIRE" script --machine null --inject failslub t.quire
	[ "$status" = 2 ]
	[[ "$output" == *'--inject failslub:'* ]]
}

@test "pools of huge pages, the smallest ones and the largest" {
	"$QUIRE" check inject --workload hugetlb --count 3 >out.txt
	grep -q '^fail_copy_page at hugetlb_wp ' out.txt
	"$QUIRE" check inject --workload hugetlb-1g >out.txt
	grep -q '^fail_page_alloc at contig ' out.txt
	awk '/^all / { exit !($2 > 10 && $4 == $2) }' out.txt
}
