#!/usr/bin/env bash
# The thread "filemap: vm-scalability.throughput -27.3% regression", first its own figures, then the
# same investigation on this machine's kernel.
# Usage: examples/read-fault-contention/investigate.sh [FAULTPROF]
#   FIGURES_ONLY=1  only the thread's figures; needs no root
#   SIZE=64m TASKS=4 REPEAT=5 DELAYS=0,1us,2us OUT=DIR
set -euo pipefail
exec 3>&1

faultprof=$(realpath -s "$(command -v "${1:-faultprof}")")
size=${SIZE:-64m} tasks=${TASKS:-4} repeat=${REPEAT:-5} delays=${DELAYS:-0,1us,2us}
out=${OUT:-$(mktemp -d /tmp/read-fault-contention.XXXXXX)}
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf '\n== %s\n' "$*"; }
run() {
	printf '\n$ faultprof %s\n' "$*" >&3
	"$faultprof" "$@"
}

say "1. What the thread reports: 0-day's table, and six runs of mainline with and without a revert"
run compare "figures.txt"

say "2. Its two perf call trees as one: which function explains the difference"
for part in 1 2; do
	run import "figures.txt" --part $part -o "$out/thread-$part.fprof"
done
run diff "$out/thread-1.fprof" "$out/thread-2.fprof"

[[ -z ${FIGURES_ONLY:-} ]] || exit 0
if [[ $EUID -ne 0 ]]; then
	echo "the rest records, which needs root: sudo $0" >&2
	exit 1
fi

file=$(mktemp /dev/shm/faultprof-example.XXXXXX)
trap 'rm -f "$file"' EXIT
workload=(usemem -t "$tasks" --readonly -f "$file" "$size")

say "3. The workload here: $tasks threads read a sparse file on tmpfs, and collide on its folios"
# The file is new for each recording: it is the first readers who fault for pages that are not there.
: > "$file"
run record -o "$out/read.fprof" -- "${workload[@]}"
run report "$out/read.fprof" --root do_read_fault --relative --min-percent 2

if ! "$faultprof" report "$out/read.fprof" --source trace > /dev/null 2>&1; then
	say "This kernel has no kprobes: calls cannot be counted, nor functions delayed. Compare two"
	echo "   kernels by samples: record -o OLD.fprof on one, -o NEW.fprof on the other, and diff."
	echo "   Recordings: $out"
	exit 0
fi

say "4. Exact: how often a fault-around asks for the next folio, how long each call takes"
run report "$out/read.fprof" --hist next_uptodate_folio

say "5. Who fights: CPUs in the same function, folio locks, and how much of fault-around is of use"
: > "$file"
run record --contention -o "$out/contention.fprof" -- "${workload[@]}"
run contention "$out/contention.fprof"

say "6. \"Adding 2us delay ... the result get a little bit improved\": the same delays, and what"
echo "   they do here. An index below 0 is the thread's surprise; 1 is the critical path."
run perturb --at set_pte_range --delay "$delays" --repeat "$repeat" --no-cost --metric usemem -- \
	sh -c ": > '$file'; exec usemem -t $tasks --readonly -f '$file' $size"

say "Recordings: $out"
