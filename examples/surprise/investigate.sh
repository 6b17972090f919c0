#!/usr/bin/env bash
# From a surprise to its proof: a command that gets faster when it is measured. It wants four idle
# CPUs: on a busy machine the threads are kept apart by that alone, and nothing is to be seen.
# Usage: examples/surprise/investigate.sh [FAULTPROF]   (needs root, kprobes or fentry, and a C compiler)
set -euo pipefail

read -ra faultprof <<<"${1:-faultprof}"
repeat=${REPEAT:-8}
source=$(realpath "$(dirname "$0")")/collide.c
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

say() { printf '\n## %s\n\n' "$*"; }
run() {
	printf '    $ %s\n' "$*"
	if [[ $1 == faultprof ]]; then set -- "${faultprof[@]}" "${@:2}"; fi
	"$@" | sed 's/^/    /'
	echo
}

cc -O1 -pthread -o collide "$source"
# On kernels before 6.2 it is inlined into its caller.
where=do_anonymous_page
"${faultprof[@]}" functions -f "$where" --json | grep -q '"how": "symbol"' \
	|| where=__handle_mm_fault

say 'The surprise'
run faultprof record --check-overhead --repeat "$repeat" --attach kprobe --no-calibrate -q -- ./collide
say 'The suspicion'
run faultprof perturb --at $where --delay 0,50us,100us --repeat "$repeat" --seed 1 \
	--no-cost -q -- ./collide
say 'The proof'
run ./collide
run ./collide -q
run faultprof perturb --at $where --delay 0,50us,100us --repeat "$repeat" --seed 1 \
	--no-cost -q -- ./collide -q
