load helpers.bash

@test "fidelity: groups, one of them or the reason why it was skipped, and a wrong name" {
	run "$QUIRE" fidelity --list
	[ "$status" -eq 0 ]
	[[ "$output" == *"mremap"* ]]
	run "$QUIRE" fidelity --machine host brk
	case "$output" in
	*"kernel: Linux"*"brk"*)
		# Older kernels place and merge otherwise.
		[ "$status" -eq 0 ] || [ "$(uname -r | awk -F. '{ print ($1 * 1000 + $2 < 6016) }')" -eq 1 ]
		;;
	*"quire: "*) [ "$status" -ne 0 ] ;;
	*) false ;;
	esac
	run "$QUIRE" fidelity nothing
	[ "$status" -eq 2 ]
	[[ "$output" == *"no such group: nothing"* ]]
}

@test "fidelity: a script with an error is refused with its place" {
	printf 'mmap 1p\nmunmap\n' >"$T/s.q"
	run "$QUIRE" fidelity --script "$T/s.q"
	[ "$status" -eq 1 ]
	[[ "$output" == *"s:2:"* ]]
}

@test "fidelity: settings are written in a guest that was booted for it, and nowhere else" {
	if grep -qw 'quire.guest=1' /proc/cmdline; then skip "this is such a guest"; fi
	run "$QUIRE" fidelity --global-settings brk
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 1 ]
	[[ "$output" == *"--global-settings"*"scripts/guest"* ]]
}

@test "guest: wrong options are refused in one line" {
	run "$BATS_TEST_DIRNAME/../../scripts/guest" --nodes 9
	[ "$status" -eq 2 ]
	[ "$output" = "guest: --nodes 9: a number from 1 to 4" ]
	run "$BATS_TEST_DIRNAME/../../scripts/guest" --mem 200 --nodes 3
	[ "$status" -eq 2 ]
	[[ "$output" == *"at least 128M a node"* ]]
	run "$BATS_TEST_DIRNAME/../../scripts/guest" --help
	[ "$status" -eq 0 ]
	[[ "$output" == *"--swap SIZE"* ]]
}

@test "fidelity: the first wait of a run finds nothing of its own to fault in" {
	printf 'fork P\nproc P: exit\nwait P\n' >"$T/w.q"
	run "$QUIRE" fidelity --machine null --script "$T/w.q"
	[[ "$output" != *"pgfault rose"* ]]
	[[ "$output" == *"quire: "* ]] || [ "$status" -eq 0 ]
}

@test "fidelity: --set takes the engine's own settings alone" {
	fails 2 'quire.NAME=VALUE' "$QUIRE" fidelity --set vm.overcommit_memory=1 brk
	fails 2 'fork_tables' "$QUIRE" fidelity --set quire.fork_tables=maybe brk
}
