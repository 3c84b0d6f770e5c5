#!/usr/bin/env bats
# quire run on pools of huge pages, and what is said when a pool is too small.
load helpers.bash

@test "writes to shared pages of a pool copy them whole" {
	"$QUIRE" run anon-cow-seq-hugetlb --machine laptop --tasks 2 --size 12M --set hugepages-2048kB.nr_hugepages=6 --json run.json >out.txt
	well_formed run.json
	grep -q 'pool copy 2M' out.txt
	grep -A1 '"quire_fault_hugetlb_cow_2m"' run.json | grep -qw 4 || grep -q '"quire_fault_hugetlb_cow_2m": 4' run.json
	! "$QUIRE" run anon-w-seq --machine laptop --tasks 2 --size 8M | grep -q 'pool 2M'
}

@test "a pool that is too small is said in one line, with the setting" {
	fails 1 'set hugepages-2048kB.nr_hugepages=6 or more' "$QUIRE" run anon-cow-seq-hugetlb --machine laptop --tasks 2 --size 12M \
		--set hugepages-2048kB.nr_hugepages=5
	fails 2 'hugepages-2048kB.nr_hugepages' "$QUIRE" run anon-w-seq-hugetlb --machine laptop --set hugepages-2048kB.nr_hugepages=many
	"$QUIRE" knobs | grep -q 'hugepages-1048576kB.nr_hugepages'
}
