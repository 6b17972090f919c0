#!/usr/bin/env bash
# The main job on real input: anonymous write faults, then read faults on a shared file. Traced
# where the kernel has kprobes, sampled elsewhere.
# Usage: examples/demo.sh [FAULTPROF]   (needs root: BPF programs and perf events do)
set -euo pipefail

faultprof=$(command -v "${1:-faultprof}")
if [[ $EUID -ne 0 ]]; then
	echo "demo: recording needs root; run: sudo make demo" >&2
	exit 1
fi

out=$(mktemp -d)
file=$(mktemp /dev/shm/faultprof-demo.XXXXXX)
trap 'rm -rf "$out" "$file"' EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

say 'Anonymous memory, written: faultprof record -- usemem -t 2 512m'
"$faultprof" record -o "$out/anon.fprof" -- usemem -t 2 512m
"$faultprof" report "$out/anon.fprof" --root handle_mm_fault

say "A sparse shared file, read: faultprof record -- usemem -t 2 --readonly -f $file 512m"
"$faultprof" record -o "$out/read.fprof" -- usemem -t 2 --readonly -f "$file" 512m
"$faultprof" report "$out/read.fprof" --root handle_mm_fault

if "$faultprof" report "$out/read.fprof" --source trace > /dev/null 2>&1; then
	say 'How long next_uptodate_folio takes, and how often one call maps how many pages'
	"$faultprof" report "$out/read.fprof" --hist next_uptodate_folio
	say 'What the samples taken beside the trace say of it'
	"$faultprof" report "$out/read.fprof" --check
else
	say 'Both trees are sampled: this kernel has no kprobes.'
	cat <<-'EOF'
	A kernel that has them, as the stock kernels of Debian and Fedora, traces with the same
	commands: exact calls, times and histograms of every function of the fault path. To see it
	here, in a virtual machine of the test suite (a few minutes, the first time more):
	    make setup-dev
	    .venv/bin/python -m tests.kernels.vm run 6.12 -- \
	        'faultprof record -- usemem -t 2 64m; faultprof report --root handle_mm_fault'
	EOF
fi

"$faultprof" report "$out/read.fprof" --folded > demo.folded
say "Folded stacks for a flame graph: demo.folded ($(wc -l < demo.folded) stacks)"
