#!/usr/bin/env bats
# quire bench linux: every measurement runs, small, and the result has the documented shape. No time is asserted.
load helpers

@test "bench linux measures both sides and writes the documented JSON" {
	"$QUIRE" bench linux --repeats 1 --size 8M --fork-size 8M --json out.json >out.txt
	grep -q "^fault_4k .* linux " out.txt
	grep -q "Fewer than 6 repeats" out.txt
	python3 - <<-'END'
	import json, os
	r = json.load(open("out.json"))
	assert r["schema"] == 1 and r["command"] == "bench" and r["machine"] == {"name": "host", "kind": "host"}
	rows = {x["name"]: x for x in r["results"]}
	names = ["fault_4k", "fault_4k_cached", "fault_2m", "cow_4k", "munmap", "fork_copy", "fork_shared", "fork_shared_write"]
	two = len(os.sched_getaffinity(0)) > 1
	names += ["shootdown_mprotect", "shootdown_madvise", "shootdown_munmap"] if two else []
	for name in names:
	    x = rows[name]
	    assert x["unit"] == "ns" and x["better"] == "lower" and x["peer_name"] == "linux"
	    assert x["ours"] > 0 and x["peer"] > 0 and x["low"] <= x["ratio"] <= x["high"]
	assert rows["tlb_hit"]["peer"] is None
	assert not two or rows["fault_4k_two_threads"]["better"] == "higher"
	END
}

@test "bench linux takes settings, and says what it does not know" {
	"$QUIRE" bench linux --only fault_4k --repeats 1 --size 8M --fork-size 8M --set quire.host_clear=rep | grep -q "^fault_4k"
	run "$QUIRE" bench linux --only nonsense
	[ "$status" -eq 1 ]
	[[ "$output" == *nonsense*'there are tlb_hit, fault_4k'* ]]
	run "$QUIRE" bench linux --set quire.host_clear=maybe
	[ "$status" -eq 2 ]
	run "$QUIRE" bench linux more
	[ "$status" -eq 2 ]
}
