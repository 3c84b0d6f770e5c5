#!/usr/bin/env bats
# quire bench alloc and quire run --proc: small, and the result has the documented shape. No time is asserted.
load helpers

peer() {
	printf '#!/bin/sh\n%s\n' "$1" >peer.sh
	chmod +x peer.sh
}

@test "bench alloc measures this computer beside the kernel and a model by CPUs" {
	"$QUIRE" bench alloc --repeats 1 --size 128M --cpus 2 -m laptop --json out.json >out.txt
	grep -q "^alloc_bulk_0_1 " out.txt
	grep -q "no other allocator was given" out.txt
	python3 - <<-'END'
	import json
	r = json.load(open("out.json"))
	assert r["schema"] == 1 and r["command"] == "bench"
	for machine in "host", "laptop":
	    rows = {x["name"]: x for x in r["results"] if x["machine"] == machine}
	    for p in "bulk", "repeat", "rand":
	        for order in 0, 9:
	            x = rows[f"alloc_{p}_{order}_1"]
	            assert x["unit"] == "ns" and x["better"] == "lower" and x["ours"] > 0 and x["order"] == order and x["tasks"] == 1
	            assert x["peer"] is None and x["peer_name"] is None and x["ratio"] is None
	            assert (x["linux"] is not None) == (machine == "host" and p != "rand")
	assert any(x["name"] == "alloc_rand_9_2" and x["machine"] == "laptop" for x in r["results"])
	END
}

@test "bench alloc runs another allocator's program and takes its number" {
	peer 'echo "$1 $2 $3 $4" >>calls; echo 50.5'
	"$QUIRE" bench alloc --repeats 2 --size 128M --cpus 0 --only alloc_rand_9_1 --llfree ./peer.sh --json out.json >out.txt
	grep -q "^alloc_rand_9_1 .* 50.5 " out.txt
	[ "$(sort -u calls)" = "rand 9 1 134217728" ]
	peer 'echo nothing'
	run "$QUIRE" bench alloc --repeats 1 --size 128M --cpus 0 --only alloc_rand_9_1 --llfree ./peer.sh
	[ "$status" -eq 1 ]
	[[ "$output" == *"not a number"* ]]
	peer 'exit 3'
	run "$QUIRE" bench alloc --repeats 1 --size 128M --cpus 0 --only alloc_rand_9_1 --llfree ./peer.sh
	[ "$status" -eq 1 ]
	[[ "$output" == *"it failed"* ]]
	run "$QUIRE" bench alloc --llfree ./nobody
	[ "$status" -eq 1 ]
	[[ "$output" == *"No such file"* ]]
}

@test "bench alloc says what it does not know" {
	run "$QUIRE" bench alloc --only nonsense --cpus 0 --size 128M
	[ "$status" -eq 1 ]
	[[ "$output" == *nonsense* ]]
	run "$QUIRE" bench alloc --no-host --cpus 0
	[ "$status" -eq 2 ]
	run "$QUIRE" bench alloc more
	[ "$status" -eq 2 ]
}

@test "run --proc prints the allocator's state as Linux does, in the table and in JSON" {
	"$QUIRE" run anon-w-seq -m laptop --size 4M --tasks 1 --proc buddyinfo,zoneinfo,pagetypeinfo --json out.json >out.txt
	grep -Eq '^Node 0, zone +Normal( +[0-9]+){11} $' out.txt
	grep -q "^  pages free     " out.txt
	grep -q "^Number of blocks type     Unmovable" out.txt
	python3 - <<-'END'
	import json
	proc = json.load(open("out.json"))["rows"][0]["proc"]
	assert sorted(proc) == ["buddyinfo", "pagetypeinfo", "zoneinfo"]
	line = [x for x in proc["buddyinfo"].splitlines() if "Normal" in x][0]
	free = sum(int(n) << i for i, n in enumerate(line.split()[4:]))
	zone = proc["zoneinfo"].split("zone   Normal")[1]
	assert free == int(zone.split("pages free")[1].split()[0])
	END
	run "$QUIRE" run anon-w-seq -m laptop --size 4M --proc slabinfo
	[ "$status" -eq 2 ]
	[[ "$output" == *"slabinfo"*"buddyinfo"* ]]
}
