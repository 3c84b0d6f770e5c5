#!/usr/bin/env bats
# quire run boot and hotplug, and the experiment's file.
load helpers.bash

@test "boot: each step runs on the model, the counts are the map's, the table says modelled" {
	"$QUIRE" run boot --machine x86-384g-2n --size 512M --vary quire.memmap_init=memset,word_stores,no_node_test,chunked,valid_runs,zone_job \
		--json out.json >out.txt
	well_formed out.json
	grep -q 'All figures are modelled' out.txt
	for row in 1 2 3 4 5 6; do [ "$(number out.json descriptors $row)" = 131072 ]; done
	"$QUIRE" run boot --machine x86-384g-2n --size 512M --set quire.memmap_init=memset --json again.json -q
	[ "$(number out.json ready_s 1)" = "$(number again.json ready_s 1)" ]
}

@test "boot: on this computer, by two tasks, with its store bandwidth beside it" {
	"$QUIRE" run boot --machine host --size 256M --tasks 2 --json out.json >/dev/null
	[ "$(number out.json descriptors 1)" = 65536 ]
	grep -q '"store_line_ns"' out.json
	grep -q '"share_of_stores"' out.json
}

@test "boot and hotplug: what makes no sense is said in one line" {
	fails 1 'at least 128 MiB a node' "$QUIRE" run boot --machine x86-384g-2n --size 1M
	fails 1 'it has tasks and size only' "$QUIRE" run boot --machine x86-384g-2n --size 512M --step 64
	fails 1 'a node needs one' "$QUIRE" run boot --machine x86-384g-2n --size 512M --tasks 1
	fails 2 'quire.memmap_init' "$QUIRE" run boot --set quire.memmap_init=fast
	"$QUIRE" run hotplug --machine x86-384g-2n --size 512M --vary quire.hotplug_init=page,flag_folded >/dev/null
	"$QUIRE" experiment show memmap-init | grep -q 'quire.memmap_init'
}
