"""perf record, perf script, import, report: the same shares as perf report gives."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import faultprof
from faultprof.kernel.kallsyms import fold
from faultprof.recording.frames import USER
from faultprof.workloads.usemem import find_usemem
from tests.running import run

ROUNDING = 0.0051  # perf prints two decimals


def test_every_function_has_the_share_that_perf_report_gives(tmp_path: Path) -> None:
    data = tmp_path / "perf.data"
    workload = [str(find_usemem().path), "-t", "2", "256m"]
    perf("record", "-q", "-g", "-e", "cpu-clock", "-F", "999", "-o", data, "--", *workload)
    (tmp_path / "script.txt").write_text(perf("script", "-i", data, "--header"))
    done = run("import", tmp_path / "script.txt", "-o", tmp_path / "perf.fprof", "--periods")
    assert done.returncode == 0, done.stderr
    recording = faultprof.load(tmp_path / "perf.fprof")
    assert recording.metadata.ledger.verdict == "good"
    assert (
        recording.metadata.kernel.release == Path("/proc/sys/kernel/osrelease").read_text().strip()
    )
    ours = own_shares(recording)
    theirs = reported(perf("report", "-i", data, *REPORT))
    print(f"{len(theirs)} functions, {recording.runs[0].samples} samples")
    assert ours.keys() == theirs.keys()
    assert len(theirs) > 5
    for function, (share, entries) in theirs.items():
        assert abs(ours[function] - share) <= entries * ROUNDING, function


REPORT = ("--no-children", "--stdio", "-g", "none", "-s", "dso,sym", "--percent-limit", "0")
_LINE = re.compile(r"\s*([\d.]+)%\s+(\S.*?)\s+\[(.)\]\s+(\S.*?)\s*")


def own_shares(recording: faultprof.LoadedRecording) -> dict[str, float]:
    """Self share of each function in percent; user code without a symbol by its file."""
    tree = recording.tree()
    return {
        key(total.frame.function, total.frame.module, total.frame.resolution == USER): (
            100 * total.self_samples / tree.total
        )
        for total in tree.functions()
        if total.self_samples
    }


def key(function: str, module: str, user: bool) -> str:
    return f"{'user' if user else 'kernel'} {module} {function}"


def reported(text: str) -> dict[str, tuple[float, int]]:
    """Return the same from perf's text, and how many printed entries each share is the sum of."""
    shares: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    for line in text.splitlines():
        if not (found := _LINE.fullmatch(line)):
            continue
        file = found[2].rpartition("/")[2]
        user = found[3] == "."
        module = file if user else re.sub(r"kernel\.kallsyms", "", file).strip("[]")
        name = found[4]
        if re.fullmatch(r"0x[0-9a-f]+", name):
            name = f"[{file.strip('[]')}]" if user else "[unknown]"
        one = key(name if user else fold(name).function, module, user)
        shares[one] += float(found[1])
        entries[one] += 1
    return {one: (shares[one], entries[one]) for one in shares}


def perf(*words: str | Path) -> str:
    program = shutil.which("perf")
    assert program is not None
    command: Sequence[str] = [program, *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout
