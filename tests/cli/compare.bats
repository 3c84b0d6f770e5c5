#!/usr/bin/env bats
# quire compare and quire experiment, as a user meets them.
load helpers.bash

tiny() { # a comparison that takes no time
	"$QUIRE" compare anon-cow-seq --machine laptop --tasks 2 --size 12M --stagger 200us --set quire.huge_cow=copy \
		--base quire.huge_copy_order=linear --with quire.huge_copy_order=target_last "$@"
}

@test "compare prints medians, gains and intervals, and says what they are" {
	tiny >out.txt
	grep -q '^machine: laptop' out.txt
	grep -q '^base:    quire.huge_copy_order=linear' out.txt
	grep -Eq '^throughput_KBps .* [0-9.]+ \[[0-9.]+, [0-9.]+\]' out.txt
	grep -q 'All figures are modelled' out.txt
	[ "$(wc -L <out.txt)" -le 130 ]
}

@test "compare gives the same bytes again, whatever the number of threads" {
	tiny -q --repeats 3 --jobs 1 --json a.json
	tiny -q --repeats 3 --jobs 3 --json b.json
	cmp a.json b.json
	well_formed a.json
	grep -q '"command": "compare"' a.json
	grep -q '"main": "throughput_KBps"' a.json
}

@test "a side against itself is no difference" {
	"$QUIRE" compare anon-w-seq --machine laptop --tasks 2 --size 8M --repeats 2 \
		--base vm.overcommit_memory=0 --with vm.overcommit_memory=1 >out.txt
	grep -Eq '^throughput_KBps .*(equal|no difference)$' out.txt
}

@test "recordings can be compared" {
	make_trace
	"$QUIRE" compare t.qtr --machine laptop --repeats 1 --base transparent_hugepage.enabled=never \
		--with transparent_hugepage.enabled=always --json a.json >out.txt
	grep -q '"main": "time_ns"' a.json
	grep -q 'one pair' out.txt
}

@test "compare: what was asked for in a wrong way" {
	fails 2 'what with what?' "$QUIRE" compare anon-w-seq
	fails 2 'did you mean anon-w-seq?' "$QUIRE" compare anon-w-sec --with vm.overcommit_memory=1
	fails 2 '--base: no such setting: foo' "$QUIRE" compare anon-w-seq --base foo=1
	fails 2 'allowed: linear' "$QUIRE" compare anon-w-seq --with quire.huge_clear_order=sideways
	fails 2 '--until-interval 200%' "$QUIRE" compare anon-w-seq --with vm.overcommit_memory=1 --until-interval 200%
	fails 2 'recordings are replayed on a model' "$QUIRE" compare ./x.qtr --machine host --with vm.overcommit_memory=1
	fails 2 'a program cannot be compared' "$QUIRE" compare --with vm.overcommit_memory=1 -- true
	fails 1 'No such file' "$QUIRE" compare ./none.qtr --with vm.overcommit_memory=1
}

@test "experiment list and show" {
	"$QUIRE" experiment list >out.txt
	grep -q '^huge-copy-order ' out.txt
	"$QUIRE" experiment list --json out.json 2>/dev/null
	well_formed out.json
	"$QUIRE" experiment show huge-copy-order >huge.yaml
	grep -q '^scale_rule:' huge.yaml
	fails 2 'did you mean huge-copy-order?' "$QUIRE" experiment huge-copy-ordr
	fails 2 "shows them" "$QUIRE" experiment zzz
	fails 2 'which one?' "$QUIRE" experiment
}

@test "an experiment of one's own: published and modelled beside each other" {
	cat >small.yaml <<-'END'
		title: a small one
		mechanism: 0
		source: nobody
		scale: 1
		scale_rule: nothing is scaled
		explains: two tasks are no pressure
		cases:
		  - case: two tasks
		    control: true
		    workload: anon-cow-seq
		    knob: quire.huge_copy_order
		    base: linear
		    with: [target_last]
		    settings: { quire.huge_cow: copy }
		    model: { machine: laptop, tasks: 2, size: 12M, rounds: 2 }
		    figures:
		      - { metric: throughput, published: 1.166, as: "+16.6 %" }
	END
	"$QUIRE" experiment ./small.yaml --json out.json >out.txt
	well_formed out.json
	grep -q '"command": "experiment"' out.json
	grep -q '"metric": "throughput"' out.json
	grep -q '"measured": null' out.json
	grep -q '1.166 (+16.6 %)' out.txt
	grep -q 'two tasks are no pressure' out.txt
	sed -i 's/tasks: 2,/tasks: two,/' small.yaml
	fails 2 'small.yaml:15:38: tasks: two: a whole number from 1 to 65536' "$QUIRE" experiment ./small.yaml
	fails 2 '--scale 2' "$QUIRE" experiment huge-copy-order --scale 2
}
