#!/usr/bin/env bats
# Whatever is handed to the command, it ends by itself, without a crash, with one line about what is wrong, and leaves files whole.
load helpers.bash

# The least there is to run, on the machine file m.yaml.
TINY=("$QUIRE" run stream --size 4K --count 1 --quiet --machine ./m.yaml)

# survives WHAT COMMAND...: the command ends within 20 s with 0, 1 or 2 and says at most one line, and one if it fails.
survives() {
	local what=$1 code=0 lines
	shift
	timeout 20 "$@" >out.txt 2>err.txt </dev/null || code=$?
	lines=$(wc -l <err.txt)
	if [ "$code" -gt 2 ] || [ "$lines" -gt 1 ] || { [ "$code" != 0 ] && [ "$lines" = 0 ]; }; then
		echo "$what: exit code $code and:"
		head -n 5 err.txt
		return 1
	fi
}

# refused TEXT: m.yaml is not taken, in one line that names the file, and with TEXT in it.
refused() {
	local code=0
	timeout 20 "${TINY[@]}" >out.txt 2>err.txt || code=$?
	if { [ "$code" != 1 ] && [ "$code" != 2 ]; } || [ "$(wc -l <err.txt)" -gt 2 ] || ! grep -qF m.yaml err.txt || ! grep -qF -- "$1" err.txt; then
		echo "expected m.yaml to be refused with '$1', got $code and:"
		cat err.txt
		return 1
	fi
}

# with SED TEXT: the laptop's file, changed by the sed script SED, is refused with TEXT.
with() {
	sed "$1" laptop.yaml >m.yaml
	! cmp -s m.yaml laptop.yaml || { echo "'$1' changes nothing"; return 1; }
	refused "$2" || { echo "after: $1"; return 1; }
}

# A text trace of a few blocks.
make_blocks() {
	awk 'BEGIN { for (i = 0; i < 70000; i++) printf "%s %x 8\n", i % 3 ? "R" : "W", 1048576 + (i * 7919 % 60011) * 8 }' >t.txt
	"$QUIRE" trace import -o t.qtr t.txt >/dev/null
}

# byte FILE POSITION VALUE: puts one byte.
byte() {
	printf "\\x$(printf %x "$3")" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "every machine that ships can be run" {
	"$QUIRE" machine list | cut -c3- | while read -r name rest; do
		"$QUIRE" run stream --size 4K --count 1 --quiet --machine "$name" || { echo "$name cannot"; exit 1; }
	done
}

@test "machine files with mistakes of form" {
	"$QUIRE" machine show laptop >laptop.yaml
	with '1,$d' ''
	with '/^tlb:/i\
frobnicate: 7' 'frobnicate'
	with 's/^  sockets:/  scokets:/' 'scokets'
	with 's/^  sockets: 1/  sockets: 1\
  sockets: 1/' 'sockets'
	with 's/^cache:/cache/' ''
	with 's/latency: 12cycles, replacement: plru }/latency: 12cycles, replacement: plru/' ''
	with 's/^  sockets:/\tsockets:/' ''
	with '$a\
  - [' ''
	with 's/^cpu:/cpu: 5/' ''
	with '/^nodes:/,$d' 'nodes'
	with '/^cpu:/,/^cache:/{/^cache:/!d}' 'cpu'
	printf '\000\001\002\377' >m.yaml
	refused ''
	head -c 100000 /dev/zero | tr '\0' '[' >m.yaml
	refused ''
	head -c 200000 /dev/urandom >m.yaml
	survives 'random bytes' "${TINY[@]}"
	printf 'a: &x [*x, *x]\nb: [*x, *x, *x, *x]\n' >m.yaml
	refused ''
}

@test "machine files with mistakes of value" {
	"$QUIRE" machine show laptop >laptop.yaml
	with 's/sockets: 1/sockets: many/' 'sockets'
	with 's/sockets: 1/sockets: -1/' 'sockets'
	with 's/sockets: 1/sockets: 0/' 'sockets'
	with 's/sockets: 1/sockets: 1.5/' 'sockets'
	with 's/sockets: 1/sockets: 99999999999999999999/' 'sockets'
	with 's/sockets: 1/sockets: [1]/' 'sockets'
	with 's/cores_per_socket: 4/cores_per_socket: 100000/' 'c'
	with 's/frequency: 3GHz/frequency: 3/' 'frequency'
	with 's/frequency: 3GHz/frequency: 3GB/' 'frequency'
	with 's/frequency: 3GHz/frequency: 0GHz/' 'frequency'
	with 's/ipc: 2.2/ipc: fast/' 'ipc'
	with 's/replacement: srrip/replacement: best/' 'replacement'
	with 's/inclusion: inclusive/inclusion: maybe/' 'inclusion'
	with 's/size: 32K/size: 32Q/' 'size'
	with 's/size: 32K, ways: 8/size: 32K, ways: 7/' ''
	with 's/size: 32K/size: 32/' ''
	with 's/entries_4k: 64/entries_4k: 0/' 'entries_4k'
	with 's/ways_4k: 12/ways_4k: 5/' ''
	with 's/shared_2m: true/shared_2m: perhaps/' 'shared_2m'
	with 's/memory: 16G/memory: 0/' 'memory'
	with 's/memory: 16G/memory: 16EiB/' 'memory'
	with 's/memory: 16G/memory: 1000P/' 'memory'
	with 's/socket: 0/socket: 3/' 'socket'
	with 's/read_latency: 51ns/read_latency: 51GHz/' 'read_latency'
	with 's/read_latency: 51ns/read_latency: -51ns/' 'read_latency'
	with 's/read_bandwidth: 29GB/read_bandwidth: 0GB/' 'read_bandwidth'
	with 's/syscall: 190ns/syscall: soon/' 'syscall'
}

@test "machine files: each line lost, doubled, cut off, each number changed" {
	"$QUIRE" machine show laptop | grep -v '^ *#' | sed 's/ *#.*//' >laptop.yaml
	n=$(wc -l <laptop.yaml)
	for i in $(seq 1 "$n"); do
		sed "${i}d" laptop.yaml >m.yaml
		survives "line $i lost" "${TINY[@]}"
		sed "${i}p" laptop.yaml >m.yaml
		survives "line $i doubled" "${TINY[@]}"
		head -n "$i" laptop.yaml | head -c -7 >m.yaml
		survives "cut off in line $i" "${TINY[@]}"
	done
	for to in 0 3 -4 99999999999 x; do
		for i in $(seq 1 "$n"); do
			sed "${i}s/[0-9][0-9.]*/$to/2" laptop.yaml | sed "${i}s/: [0-9][0-9.]*/: $to/" >m.yaml
			cmp -s m.yaml laptop.yaml || survives "line $i with $to" "${TINY[@]}"
		done
	done
}

@test "machine files that are no files" {
	mkdir m.yaml
	refused 'a folder'
	rmdir m.yaml
	: >m.yaml
	refused ''
	rm m.yaml
	refused 'No such file'
	mkfifo m.yaml
	survives 'a FIFO' "${TINY[@]}"
}

@test "recordings cut at a hundred places: what is before is replayed" {
	make_blocks
	size=$(stat -c %s t.qtr)
	last=0
	for i in $(seq 0 99); do
		head -c $((size * i / 100)) t.qtr >cut.qtr
		rm -f out.json
		survives "cut to $((size * i / 100)) bytes" "$QUIRE" run cut.qtr --machine laptop --quiet --json out.json
		[ -e out.json ] || continue
		refs=$(number out.json references 1)
		[ "$refs" -ge "$last" ] && [ "$refs" -le 70000 ]
		grep -q damaged out.json
		last=$refs
	done
	[ "$last" -gt 60000 ]
}

@test "recordings with a bit turned at a hundred places" {
	make_blocks
	size=$(stat -c %s t.qtr)
	x=1
	for i in $(seq 100); do
		x=$(((x * 1103515245 + 12345) % 2147483648))
		at=$((x / 8 % size))
		cp t.qtr bad.qtr
		old=$(od -An -tu1 -j "$at" -N 1 t.qtr)
		byte bad.qtr "$at" $((old ^ (1 << (x % 8))))
		! cmp -s bad.qtr t.qtr || false
		rm -f out.json
		survives "bit $((x % 8)) of byte $at" "$QUIRE" run bad.qtr --machine laptop --quiet --json out.json
		[ ! -e out.json ] || grep -q damaged out.json
	done
}

@test "recordings that are none" {
	make_blocks
	: >empty.qtr
	mkdir dir.qtr
	mkfifo fifo.qtr
	ln -s loop.qtr loop.qtr
	cp t.qtr future.qtr
	byte future.qtr 8 255
	for verb in run 'trace info'; do
		fails 1 'empty file' "$QUIRE" $verb empty.qtr
		fails 1 'directory' "$QUIRE" $verb dir.qtr
		fails 1 'not a regular file' timeout 10 "$QUIRE" $verb fifo.qtr
		fails 1 'symbolic links' "$QUIRE" $verb loop.qtr
		fails 1 'format version 255; this quire reads version 1' "$QUIRE" $verb future.qtr
		fails 1 'not a regular file' "$QUIRE" $verb /dev/null
		fails 1 'not a trace file' "$QUIRE" $verb t.txt
	done
	head -c 1000000 /dev/zero >zero.qtr
	fails 1 'not a trace file' "$QUIRE" run ./zero.qtr
}

@test "importing from and to strange places" {
	make_blocks
	mkdir dir
	fails 1 'dir' "$QUIRE" trace import -o x.qtr dir
	fails 1 'dir' "$QUIRE" trace import -o dir t.txt
	head -c 100000 /dev/urandom >noise
	fails 1 'noise:1' "$QUIRE" trace import -o x.qtr noise
	head -c 100000 /dev/zero | tr '\0' R >long
	fails 1 'long:1' "$QUIRE" trace import -o x.qtr long
	[ ! -e x.qtr ]
	"$QUIRE" trace import -o same.qtr t.txt >/dev/null
	printf 'R 1000 8\nX\n' >bad.txt
	fails 1 'bad.txt:2' "$QUIRE" trace import -o same.qtr bad.txt
	cmp same.qtr t.qtr
	[ "$(ls | grep -c same.qtr)" = 1 ]
}

@test "a result that cannot be written leaves the old file as it was" {
	echo old >out.json
	fails 1 'directory' small --quiet --json .
	if [ "$(id -u)" = 0 ]; then # root may write anywhere that is not mounted read-only
		fails 1 '/proc/x.json' small --quiet --json /proc/x.json
	else
		mkdir ro
		echo old >ro/out.json
		chmod 555 ro
		fails 1 'ro/out.json' small --quiet --json ro/out.json
		[ "$(cat ro/out.json)" = old ]
		chmod 755 ro
	fi
	fails 1 '/dev/full: No space left' small --quiet --json /dev/full
	small --quiet --json - >/dev/full 2>err.txt && return 1
	[ "$(wc -l <err.txt)" = 1 ]
	small >/dev/full 2>err.txt && return 1
	[ "$(wc -l <err.txt)" = 1 ]
	# A file size limit is what a full disk looks like to one process.
	code=0
	(trap '' XFSZ; ulimit -f 1; small --quiet --json out.json >out.txt 2>err.txt) || code=$?
	[ "$code" = 1 ]
	[ "$(wc -l <err.txt)" = 1 ]
	[ "$(cat out.json)" = old ]
	[ "$(ls | grep -c out.json)" = 1 ]
}

@test "a recording that cannot be written leaves the old file as it was" {
	make_blocks
	echo old >x.qtr
	code=0
	(trap '' XFSZ; ulimit -f 8; "$QUIRE" trace import -o x.qtr t.txt >out.txt 2>err.txt) || code=$?
	[ "$code" = 1 ]
	[ "$(wc -l <err.txt)" = 1 ]
	[ "$(cat x.qtr)" = old ]
	[ "$(ls | grep -c x.qtr)" = 1 ]
}

@test "a full disk: the old result stays" {
	mkdir full
	mount -t tmpfs -o size=16k tmpfs full 2>/dev/null || skip "mounting is not permitted here"
	echo old >full/out.json
	dd if=/dev/zero of=full/rest bs=4k 2>/dev/null || true
	code=0
	small --quiet --json full/out.json >out.txt 2>err.txt || code=$?
	content=$(cat full/out.json)
	files=$(ls full | wc -l)
	umount full
	[ "$code" = 1 ]
	[ "$(wc -l <err.txt)" = 1 ]
	[ "$content" = old ]
	[ "$files" = 2 ]
}

@test "a reader that goes away ends the command, silently or with one line" {
	make_blocks
	"$QUIRE" knobs 2>err.txt | head -n 1 >/dev/null
	[ "$(wc -l <err.txt)" -le 1 ]
	"$QUIRE" run t.qtr --machine laptop --json - 2>err.txt --quiet | head -n 1 >/dev/null
	[ "$(wc -l <err.txt)" -le 1 ]
}

@test "a reader that goes away in the middle of the table leaves the JSON whole" {
	small --json out.json 2>err.txt | true
	well_formed out.json
	[ "$(ls | grep -c out.json)" = 1 ]
}

@test "the same machine, recording and result from another directory" {
	make_blocks
	mkdir -p sub/dir
	"$QUIRE" machine show laptop >m.yaml
	"$QUIRE" run ./t.qtr --machine ./m.yaml --quiet --json a.json
	(cd sub/dir && "$QUIRE" run ../../t.qtr --machine ../../m.yaml --quiet --json ../../b.json)
	sed 's,\.\./\.\./,./,' b.json | cmp - a.json
}
