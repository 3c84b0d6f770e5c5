#!/usr/bin/env bats
# Recordings: importing text, looking into them, replaying whole and damaged ones.
load helpers.bash

@test "import, info, run" {
	make_trace
	"$QUIRE" trace info --verify t.qtr >out.txt
	grep -q 'references:   50,000' out.txt
	grep -q '33,333 loads, 16,667 stores' out.txt
	"$QUIRE" run t.qtr --machine laptop --json out.json >/dev/null
	[ "$(number out.json references 1)" = 50000 ]
	[ "$(number out.json references_unmapped 1)" = 0 ]
}

@test "import reads lackey's text, from a pipe too" {
	printf '==1== Lackey\nI  0401ab70,3\n S 1fff000708,8\n L 04a19de0,8\n M 04a19de0,4\n' >l.txt
	"$QUIRE" trace import -o l.qtr l.txt | grep -q '4 references, 1 instructions, 2 areas'
	"$QUIRE" trace import -o m.qtr - <l.txt | grep -q '4 references'
	"$QUIRE" run m.qtr --machine laptop >/dev/null
}

@test "a bad line is named with what is allowed, and nothing is written" {
	printf 'R 1000 8\nX 1000 8\n' >b.txt
	fails 1 "b.txt:2: 'X 1000 8'" "$QUIRE" trace import -o b.qtr b.txt
	[ ! -e b.qtr ]
	fails 1 'no references' "$QUIRE" trace import -o b.qtr /dev/null
	fails 2 'allowed are lackey and text' "$QUIRE" trace import --format csv -o b.qtr b.txt
}

@test "names that are not UTF-8 leave the JSON whole" {
	name=$(printf 'n\377.qtr')
	make_trace
	mv t.qtr "$name"
	"$QUIRE" trace info --json info.json "$name" >/dev/null
	well_formed info.json
	grep -q '"file": "n.*qtr"' info.json
	"$QUIRE" run "$name" --machine laptop -q --json run.json
	well_formed run.json
	grep -q '"name": "n.*qtr"' run.json
}

@test "info as JSON" {
	make_trace
	"$QUIRE" trace info t.qtr --json - >out.json 2>/dev/null
	well_formed out.json
	grep -q '"references": 50000' out.json
	grep -q '"damaged": false' out.json
}

@test "a cut recording: one line says where, what is before is replayed" {
	make_trace
	size=$(stat -c %s t.qtr)
	head -c $((size * 9 / 10)) t.qtr >cut.qtr
	run "$QUIRE" trace info cut.qtr
	[ "$status" = 1 ]
	echo "$output" | grep -q 'DAMAGED:.*cut.qtr: byte'
	code=0
	"$QUIRE" run cut.qtr --machine laptop --json out.json >out.txt 2>err.txt || code=$?
	[ "$code" = 1 ] # a part is missing
	[ "$(wc -l <err.txt)" = 1 ] && grep -q 'cut.qtr: damaged' err.txt
	grep -q 'recording is damaged: cut.qtr: byte' out.txt
	[ "$(number out.json references 1)" -gt 10000 ]
}

@test "recordings cut at many places never crash" {
	make_trace
	size=$(stat -c %s t.qtr)
	for i in $(seq 0 20); do
		head -c $((size * i / 21)) t.qtr >cut.qtr
		code=0
		"$QUIRE" run cut.qtr --machine laptop -q 2>err.txt || code=$?
		[ "$code" -le 1 ]
		[ "$(wc -l <err.txt)" -le 1 ]
	done
}

@test "other files and other versions are refused in one line" {
	make_trace
	fails 1 'No such file' "$QUIRE" run nosuch.qtr
	: >empty.qtr
	fails 1 'empty file' "$QUIRE" run empty.qtr
	fails 1 'not a trace file' "$QUIRE" run t.txt
	fails 1 'directory' "$QUIRE" run .
	cp t.qtr future.qtr
	printf '\002' | dd of=future.qtr bs=1 seek=8 conv=notrunc 2>/dev/null
	fails 1 'format version 2; this quire reads version 1' "$QUIRE" run future.qtr
	fails 1 'format version 2' "$QUIRE" trace info future.qtr
}
