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
	[ "$(number out.json descriptors_reserved 1)" = 13312 ] # descriptors: 1/64; kernel and initial file system: 48 MiB
}

@test "boot and hotplug: what makes no sense is said in one line" {
	fails 1 'at least 256 MiB a node' "$QUIRE" run boot --machine x86-384g-2n --size 1M
	fails 1 'it has tasks, size, map, zoneinfo and early only' "$QUIRE" run boot --machine x86-384g-2n --size 512M --step 64
	fails 1 'a node needs one' "$QUIRE" run boot --machine x86-384g-2n --size 512M --tasks 1
	fails 2 'quire.memmap_init' "$QUIRE" run boot --set quire.memmap_init=fast
	"$QUIRE" run hotplug --machine x86-384g-2n --size 512M --vary quire.hotplug_init=page,flag_folded >/dev/null
	"$QUIRE" experiment show memmap-init | grep -q 'quire.memmap_init'
}

@test "machine map: a computer's map from its text, and a boot on it" {
	printf '%s\n' '00001000-0009ffff : System RAM' '00100000-7fffffff : System RAM' '  01000000-01ffffff : Kernel code' \
		'100000000-13fffffff : System RAM' >iomem
	printf '%s\n' 'Node 0, zone DMA32' '  spanned 524287' '  present 524191' '  managed 500000' '  start_pfn: 1' \
		'Node 0, zone Normal' '  spanned 262144' '  present 262144' '  managed 262000' '  start_pfn: 1048576' >zoneinfo
	"$QUIRE" machine map iomem zoneinfo --json map.json >out.txt
	well_formed map.json
	grep -q '3.00 GiB of memory on 1 node, 16.0 MiB of it reserved, 3 holes' out.txt
	grep -Eq '00001000000-00001ffffff .* 0 +DMA32 +reserved' out.txt
	grep -Eq 'node 0, DMA32 +1 +524,287 +524,191 +524,191 +4,096 +24,191' out.txt
	! grep -q 'different times' out.txt
	sed -i 's/present 524191/present 524190/' zoneinfo
	"$QUIRE" machine map iomem zoneinfo | grep -q 'different times or computers'
	"$QUIRE" run boot --machine x86-384g-2n --map iomem --zoneinfo zoneinfo --json boot.json -q
	[ "$(number boot.json descriptors 1)" = 786335 ]
	[ "$(number boot.json descriptors_reserved 1)" = $((4096 + (786335 + 63) / 64)) ]
	printf '00000000-00000000 : System RAM\n' >hidden
	fails 1 'only root may read them' "$QUIRE" machine map hidden
	fails 1 'only root may read them' "$QUIRE" run boot --machine x86-384g-2n --map hidden
	fails 1 'says itself how large' "$QUIRE" run boot --machine x86-384g-2n --map iomem --size 1G
	fails 2 'map takes a copy' "$QUIRE" machine map a b c
	fails 1 'it has tasks, size, map' "$QUIRE" run hotplug --machine x86-384g-2n --size 512M --ops 3
}
