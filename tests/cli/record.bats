#!/usr/bin/env bats
# Programs: recorded into a file, and run straight into the engines.
load helpers.bash

@test "programs that cannot be started" {
	need_recorder
	fails 1 'no such program' "$QUIRE" run -- nosuchprogram
	fails 1 'no such program' "$QUIRE" record -o x.qtr -- ./nosuch
	echo hello >file
	fails 1 'not executable' "$QUIRE" record -o x.qtr -- ./file
	fails 2 'name the same file' "$QUIRE" record -o x.qtr --json x.qtr -- true
	[ ! -e x.qtr ]
}

@test "record: output is the program's own, the summary is ours" {
	need_recorder
	echo 'b a' | tr ' ' '\n' | "$QUIRE" record -o x.qtr -- sort >out.txt 2>err.txt
	[ "$(tr '\n' ' ' <out.txt)" = 'a b ' ]
	grep -q 'x.qtr: .* references' err.txt
	grep -q '1 thread in 1 process,' err.txt
	"$QUIRE" record -o y.qtr --json y.json -- sh -c 'exec true' 2>err.txt
	grep -q '1 thread in 1 process,' err.txt
	grep -q '"threads": 1,' y.json
	"$QUIRE" trace info --verify x.qtr | grep -q '^program:      sort'
}

@test "run a program: its output first, then the report; both engines see the same" {
	need_recorder
	"$QUIRE" run --machine laptop --vary transparent_hugepage.enabled=never,always --json out.json -- echo hello world >out.txt
	[ "$(head -n 1 out.txt)" = 'hello world' ]
	grep -q 'All figures are modelled' out.txt
	[ "$(number out.json references 1)" = "$(number out.json references 2)" ]
	[ "$(number out.json references 1)" -gt 10000 ]
	[ "$(number out.json references_unmapped 1)" = 0 ]
}

@test "a recording gives the same bytes every time" {
	need_recorder
	"$QUIRE" record -o x.qtr -- sh -c 'echo a; ls / >/dev/null; echo b' >/dev/null 2>&1
	for i in 1 2; do
		"$QUIRE" run x.qtr --machine laptop --vary transparent_hugepage.enabled=never,always --json $i.json -q
	done
	cmp 1.json 2.json
}

@test "a program that fails or dies leaves a whole recording and is told of" {
	need_recorder
	"$QUIRE" record -o x.qtr -- sh -c 'exit 3' 2>err.txt
	grep -q 'status 3' err.txt
	"$QUIRE" trace info x.qtr >/dev/null
	"$QUIRE" record -o x.qtr -- sh -c 'kill -SEGV $$' 2>err.txt || true
	grep -Eq 'signal 11|status 139' err.txt
	"$QUIRE" trace info x.qtr >/dev/null
}

@test "a terminal that goes away: what was recorded is kept" {
	need_recorder
	# Who runs the tests under nohup has SIGHUP ignored, and quire leaves that so.
	env --default-signal=HUP "$QUIRE" record -o x.qtr -- sh -c 'echo >begun; exec sleep 60' 2>err.txt &
	pid=$!
	until [ -e begun ]; do sleep 0.1; done
	kill -HUP $pid
	wait $pid || true
	"$QUIRE" trace info x.qtr >out.txt
	grep -q '^program:      sh -c' out.txt
	grep -q 'interrupted' err.txt
	! ls | grep -q tmp
}

@test "a program that gives up its user runs on, unrecorded" {
	need_recorder
	{ [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; } || skip "not root, or no setpriv"
	"$QUIRE" record -o x.qtr -- setpriv --reuid 65534 --clear-groups /bin/echo hi >out.txt 2>err.txt
	[ "$(cat out.txt)" = hi ]
	grep -q 'ran unrecorded' err.txt
	"$QUIRE" trace info x.qtr >/dev/null
}
