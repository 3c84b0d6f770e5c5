# Shared by the command's tests. $QUIRE is the command; $T a directory of the test's own.
setup() {
	T=$(mktemp -d "${TMPDIR:-/tmp}/quire-cli-XXXXXX")
	cd "$T" || return 1
}

teardown() {
	cd /
	rm -rf "$T"
}

# fails CODE TEXT COMMAND...: the command ends with CODE and says TEXT on standard error, in one line and the pointer to help at most.
fails() {
	local want=$1 text=$2 code=0
	shift 2
	"$@" >out.txt 2>err.txt </dev/null || code=$?
	if [ "$code" != "$want" ] || ! grep -qF -- "$text" err.txt || [ "$(wc -l <err.txt)" -gt 2 ]; then
		echo "expected exit code $want and '$text', got $code and:"
		cat err.txt
		return 1
	fi
}

# number FILE NAME ROW: the value of metric NAME in row ROW (from 1) of a result of `quire run --json`.
number() {
	awk -v name="\"$2\":" -v row="$3" '$1 == name && ++n == row { sub(/,$/, "", $2); print $2; exit }' "$1"
}

# well_formed FILE: brackets pair up and strings end, by whatever is here that reads JSON.
well_formed() {
	if command -v jq >/dev/null; then
		jq -e . "$1" >/dev/null
	elif command -v python3 >/dev/null; then
		python3 -m json.tool "$1" >/dev/null
	else
		grep -q '^{' "$1" && tail -n 1 "$1" | grep -q '^}'
	fi
}

small() { # a quick run of a generated trace
	"$QUIRE" run stream --size 4M --count 100k --machine laptop "$@"
}

# A text trace whose replay touches memory in every way: import makes t.qtr of it.
make_trace() {
	awk 'BEGIN { for (i = 0; i < 50000; i++) printf "%s %x 8\n", i % 3 ? "R" : "W", 1048576 + (i * 7919 % 600011) * 8 }' >t.txt
	"$QUIRE" trace import -o t.qtr t.txt >/dev/null
}

need_recorder() {
	if ! "$QUIRE" record -o probe.qtr -- true 2>err.txt; then
		skip "no recorder here: $(head -n 1 err.txt)"
	fi
}
