#!/usr/bin/env bash
# The thread about folio_zero_user() and the order in which huge pages are cleared: first its own
# figures, then the same questions to this machine's kernel.
# Usage: examples/clear-page-order/investigate.sh [FAULTPROF]
#   FIGURES_ONLY=1  only the thread's figures; needs no root
#   PAGES=1,20 ROUNDS=5 OUT=DIR       the thread had PAGES=1,100,512
#   VMLINUX=FILE OTHER_VMLINUX=FILE   kernels with debuginfo, for the question of inlining
set -euo pipefail
exec 3>&1

faultprof=$(realpath -s "$(command -v "${1:-faultprof}")")
pages=${PAGES:-1,20} rounds=${ROUNDS:-5}
out=${OUT:-$(mktemp -d /tmp/clear-page-order.XXXXXX)}
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf '\n== %s\n' "$*"; }
run() {
	printf '\n$ faultprof %s\n' "$*" >&3
	"$faultprof" "$@"
}

say "1. What the thread reports: rounds of clearing N huge pages, and cases with and without a patch"
run compare "figures.txt"

[[ -z ${FIGURES_ONLY:-} ]] || exit 0
if [[ $EUID -ne 0 ]]; then
	echo "the rest records and mounts, which needs root: sudo $0" >&2
	exit 1
fi

say "2. The same table of this kernel: clearing by fault and by fallocate, copying by CoW"
run workload run clear --pages "$pages" --rounds "$rounds" > "$out/rounds.txt"
cat "$out/rounds.txt"
run compare "$out/rounds.txt"

say "3. The kernel's own routines in it: folio_zero_user and copy_user_large_folio"
clear=("$faultprof" workload run clear --pages "${pages##*,}" --rounds "$rounds")
presets=(--preset clear --preset hugetlb --preset anon)
if "$faultprof" functions --json | grep -q '"traceable": 0,'; then
	presets=() # and no kprobes: sampled
fi
run record ${presets[@]+"${presets[@]}"} -o "$out/clear.fprof" -- "${clear[@]}"
run report "$out/clear.fprof" --min-percent 0.5

if [[ ${#presets[@]} -gt 0 ]]; then
	say "4. In which order are the sub-pages of a huge page cleared?"
	run record --order -o "$out/order.fprof" -- "${clear[@]}"
	run contention "$out/order.fprof"
else
	say "4. This kernel has no kprobes: the order in which sub-pages are cleared cannot be seen."
fi

say "5. \"Is the code inlined in the same way?\""
if [[ -n ${VMLINUX:-} ]]; then
	run inlines "$VMLINUX" ${OTHER_VMLINUX:+"$OTHER_VMLINUX"} --function 'clear_*page*' \
		--function process_huge_page --function folio_zero_user
else
	echo "   VMLINUX=FILE shows it: a vmlinux with debuginfo (Debian: the package"
	echo "   linux-image-$(uname -r)-dbg); with OTHER_VMLINUX two kernels are put side by side."
fi

say "Recordings: $out"
