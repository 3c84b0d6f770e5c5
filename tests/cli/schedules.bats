load helpers.bash

@test "check schedules: --list, a pass, JSON, and a wrong name" {
	run "$QUIRE" check schedules --list
	[ "$status" -eq 0 ]
	[[ "$output" == *"huge-split"* ]]
	run "$QUIRE" check schedules --workload zap --count 20
	[ "$status" -eq 0 ]
	[[ "$output" == "zap: 20 schedules"*"no failure" ]]
	run "$QUIRE" check schedules --workload zap --count 2 --json -
	[ "$status" -eq 0 ]
	run "$QUIRE" check schedules --workload zapp
	[ "$status" -eq 2 ]
	[[ "$output" == *"did you mean zap?"* ]]
	run "$QUIRE" check schedules --workload zap --strategy guess
	[ "$status" -eq 2 ]
	[[ "$output" == *"random, pct or exhaustive"* ]]
}

@test "check schedules: a failure is saved, small, and fails again" {
	# A device that writes to a page that DONTNEED has taken away: the program is wrong, and the check says so.
	printf '%s\n' 'set transparent_hugepage.enabled=never' 'area a 1' 'setup' 'map a' 'write a 0' 'task one' 'pin a 0' 'poke' 'read a 0' 'unpin' \
		'task two' 'dontneed a 0' 'read a 0' >"$T/script"
	run "$QUIRE" check schedules --script "$T/script" --count 500 --save "$T/saved"
	[ "$status" -eq 1 ]
	[[ "$output" == *"FAILED, seed"*"stale"*"again: quire check schedules"* ]]
	[[ "$(head -1 "$T/saved")" == "quire schedule 1" ]]
	[ "$(grep -c switch "$T/saved")" -le 3 ]
	run "$QUIRE" check schedules --replay "$T/saved"
	[ "$status" -eq 1 ]
	[[ "$output" == *"FAILED"*"stale"* ]]
}

@test "check schedules: bad scripts and schedules are refused with their place" {
	printf 'task t\n nonsense\n' >"$T/script"
	run "$QUIRE" check schedules --script "$T/script"
	[ "$status" -eq 1 ]
	[[ "$output" == *"script:2: nonsense"* ]]
	printf 'no schedule\n' >"$T/saved"
	run "$QUIRE" check schedules --replay "$T/saved"
	[ "$status" -eq 1 ]
	[[ "$output" == *"saved:1: this is no saved schedule"* ]]
	run "$QUIRE" check schedules --workload zap --replay 1@x
	[ "$status" -ne 0 ]
}
