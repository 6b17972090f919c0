#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The pictures of README, from runs on this machine: a flame graph of read faults on a sparse file
# in memory, and the waits for locks of eight tasks that read one at the same time.
#
#   sudo examples/pictures.sh [FAULTPROF]     FAULTPROF: what to call; default .venv/bin/faultprof
set -eu -o pipefail

faultprof=$(realpath "${1:-.venv/bin/faultprof}")
pictures=$(realpath "$(dirname "$0")")/pictures
work=$(mktemp -d)
file=/dev/shm/faultprof-pictures
trap 'rm -rf "$work" "$file"' EXIT
mkdir -p "$pictures"

"$faultprof" record -q --mode sample -o "$work/read.fprof" -- \
	usemem -t 2 --readonly -f "$file" 2g >"$work/usemem.txt"
"$faultprof" flame "$work/read.fprof" --root handle_mm_fault -o "$pictures/flame.svg"
rm -f "$file"

"$faultprof" record -q --mode sample --locks -o "$work/locks.fprof" -- \
	usemem -t 8 --readonly -f "$file" 2g >"$work/usemem.txt"
"$faultprof" contention "$work/locks.fprof" --plot "$pictures/contention.svg"
