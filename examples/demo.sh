#!/usr/bin/env bash
# The main job on real input: anonymous write faults, then read faults on a shared file.
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

"$faultprof" report "$out/read.fprof" --folded > demo.folded
say "Folded stacks for a flame graph: demo.folded ($(wc -l < demo.folded) stacks)"
