#!/usr/bin/env bats
# Asking in a wrong way: one line that says what is allowed or near, exit code 2, and nothing is done.
load helpers.bash

@test "help and version of everything" {
	"$QUIRE" --version | grep -Eq '^quire [0-9]+\.[0-9]+'
	"$QUIRE" --help | grep -q 'quire COMMAND'
	for c in run script record trace workload compare experiment fidelity knobs machine bench "bench linux" "bench alloc" cases \
		check "check schedules" "check inject"; do
		"$QUIRE" $c --help >help.txt
		grep -q "^usage: quire $c" help.txt
		! grep -Eq '.{101}' help.txt || false
	done
	[ "$("$QUIRE" help check schedules)" = "$("$QUIRE" check schedules --help)" ]
}

@test "no command" {
	run "$QUIRE"
	[ "$status" = 2 ]
}

@test "unknown command, option, workload, verb: the nearest is named" {
	fails 2 'did you mean record?' "$QUIRE" recrod
	fails 2 'did you mean --machine?' "$QUIRE" run stream --machin=x --mchine laptop
	fails 2 'did you mean --vary?' "$QUIRE" run stream --vray a=b
	fails 2 'did you mean stream?' "$QUIRE" run streem
	fails 2 'did you mean import?' "$QUIRE" trace imprt x
	fails 2 'did you mean show?' "$QUIRE" machine sow
}

@test "workloads that there are" {
	fails 2 'there are stream and random' "$QUIRE" run redis
}

@test "missing and superfluous arguments" {
	fails 2 'a program after --' "$QUIRE" run
	fails 2 'needs a value' "$QUIRE" run stream --vary
	fails 2 'one recording' "$QUIRE" run stream random
	fails 2 'only one can be run' "$QUIRE" run stream -- true
	fails 2 'no program' "$QUIRE" run --
	fails 2 'no program' "$QUIRE" record -o x.qtr
	fails 2 '-o FILE' "$QUIRE" record -- true
	fails 2 'goes after --' "$QUIRE" record -o x.qtr true
	fails 2 '-o FILE' "$QUIRE" trace import x.txt
	fails 2 'takes one file' "$QUIRE" trace info
	fails 2 'takes one name' "$QUIRE" machine show
	fails 2 'replay' "$QUIRE" bench
}

@test "settings: unknown ones suggest the nearest" {
	fails 2 'did you mean transparent_hugepage.enabled?' "$QUIRE" run stream --vary transparent_hugepage.enabld=never,always
	fails 2 'did you mean transparent_hugepage.enabled?' "$QUIRE" run stream --set hugepage.enabled=never
	fails 2 'quire knobs' "$QUIRE" run stream --set zzzzzzzzz=1
}

@test "settings: bad values say what is allowed" {
	fails 2 'never, madvise or always' "$QUIRE" run stream --vary transparent_hugepage.enabled=never,sometimes
	fails 2 'allowed' "$QUIRE" run stream --set vm.overcommit_memory=7
	fails 2 'NAME=VALUE' "$QUIRE" run stream --set vm.overcommit_memory
	fails 2 'given twice' "$QUIRE" run stream --set vm.overcommit_memory=1 --vary vm.overcommit_memory=1,2
}

@test "numbers out of range" {
	fails 2 'allowed: 4096 to' "$QUIRE" run stream --size 1
	fails 2 'allowed' "$QUIRE" run stream --size 12Q
	fails 2 'allowed' "$QUIRE" run stream --count -5
	fails 2 'allowed' "$QUIRE" run stream --repeat 0
	fails 2 'allowed' "$QUIRE" run stream --size 99999999999999999999
}

@test "machines: unknown names, missing and bad files" {
	fails 2 'xeon-e5-2699v3-2s' "$QUIRE" run stream --machine nosuch
	fails 2 'nosuch.yaml' "$QUIRE" run stream --machine ./nosuch.yaml
	printf 'name: x\nsockets: many\n' >bad.yaml
	fails 2 'bad.yaml:' "$QUIRE" run stream --machine ./bad.yaml
	fails 2 'nosuch' "$QUIRE" machine show nosuch
}

@test "a place that cannot be written is found before the work" {
	fails 1 '/nonexistent/x.json' "$QUIRE" run stream --size 1T --count 1000G --json /nonexistent/x.json
	fails 1 '/nonexistent/x.qtr' "$QUIRE" trace import -o /nonexistent/x.qtr /dev/null
}
