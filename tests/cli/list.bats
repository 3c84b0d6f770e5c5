#!/usr/bin/env bats
# What can be listed: settings and machines.
load helpers.bash

@test "knobs lists names, values, defaults and origin" {
	"$QUIRE" knobs >out.txt
	grep -q '^transparent_hugepage.enabled$' out.txt
	grep -q 'values: never, madvise, always; default' out.txt
	"$QUIRE" knobs overcommit | grep -q '^vm.overcommit_memory$'
	! "$QUIRE" knobs overcommit | grep -q transparent_hugepage || false
	fails 2 'no such setting' "$QUIRE" knobs zzz
}

@test "every knob's default can be set" {
	"$QUIRE" knobs | awk '/^[a-z]/ { name = $1 } / values: / { sub(/.*default /, ""); print name "=" $0 }' >sets.txt
	[ "$(wc -l <sets.txt)" -gt 10 ]
	args=()
	while read -r s; do args+=(--set "$s"); done <sets.txt
	small "${args[@]}" >/dev/null
}

@test "knobs as JSON" {
	"$QUIRE" knobs --json - >out.json 2>/dev/null
	well_formed out.json
	grep -q '"name": "transparent_hugepage.enabled"' out.json
}

@test "machines: each that is listed can be shown, and used as a file" {
	"$QUIRE" machine list >out.txt
	grep -q xeon-e5-2699v3-2s out.txt
	[ "$(grep -c '^\*' out.txt)" = 1 ]
	cut -c3- out.txt | while read -r name rest; do
		"$QUIRE" machine show "$name" >"$name.yaml"
		[ -s "$name.yaml" ]
	done
	"$QUIRE" machine show ./laptop.yaml | cmp - laptop.yaml
	small --json a.json -q
	"$QUIRE" run stream --size 4M --count 100k --machine ./laptop.yaml --json b.json -q
	cmp a.json b.json
}

@test "machine list and show as JSON" {
	"$QUIRE" machine list --json - >out.json 2>/dev/null
	well_formed out.json
	"$QUIRE" machine show laptop --json out.json >/dev/null
	well_formed out.json
	grep -q '"name": "laptop"' out.json
}

@test "the replay bench yields its names" {
	make_trace
	"$QUIRE" bench replay --no-peers --repeats 1 --size 4M --count 200k --machine laptop --json out.json t.qtr >out.txt
	well_formed out.json
	for n in replay_streaming replay_random replay_t; do
		grep -q "\"name\": \"$n\"" out.json
		grep -q "^$n " out.txt
	done
	grep -q '"peer": null' out.json
}
