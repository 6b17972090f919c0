"""Time and memory of `faultprof import` on perf script text, beside a one-pass script in perl.

Knows: how to make such text with any number of samples, and the script (``collapse.pl``) that
folds it as the usual ones do: a regular expression per line, a hash of folded stacks.
Leaves to others: measuring a process (``commands``), taking turns (``rows``).

Both read the same file and end with all that they were asked for: the script with folded stacks,
faultprof with a recording. perl's time has no start of an interpreter with libraries in it;
faultprof's has, some half second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.commands import measure
from tests.bench.rows import Goal, Row, Subject, interleaved, ratios

SAMPLES = 400_000
SCRIPT = Path(__file__).with_name("collapse.pl")
_FUNCTIONS = 3000
_PATHS = 6000
_TASKS = 40
_TASK_NAMES = ("usemem", "python3", "kworker/0:1", "CPU 0/KVM")


def write_script(path: Path, samples: int, seed: int = 1) -> None:
    """Write ``perf script`` text: stacks of 8 to 30 frames, hot paths, own addresses per process.

    Every sample has a time, and of a hot path every sample is at another instruction of its last
    function. User code is at other addresses in every process, as address randomisation has it.
    """
    rng = Random(seed)
    names = [f"some_kernel_function_{number}" for number in range(_FUNCTIONS)]
    paths = [_path(rng, names) for _ in range(_PATHS)]
    user = {task: rng.getrandbits(34) << 12 for task in range(_TASKS)}
    clock = 1000.0
    with path.open("w") as file:
        for _ in range(samples):
            clock += rng.expovariate(2000)
            task = rng.randrange(_TASKS)
            # Heavy-tailed: the hottest paths have most of the samples.
            kernel, leaf, depth = paths[min(int(rng.paretovariate(0.4)) - 1, _PATHS - 1)]
            comm = _TASK_NAMES[task % len(_TASK_NAMES)]
            file.write(
                f"{comm}  {2000 + task} [{task % 8:03}] {clock:.6f}:    1001001 cpu-clock: \n"
            )
            offset = rng.randrange(1, 300)
            file.write(f"\t{leaf[0] + offset:16x} {leaf[1]}+0x{offset:x} ([kernel.kallsyms])\n")
            file.write(kernel)
            file.write(_user_frames(user[task], depth))
            file.write("\n")


def _path(rng: Random, names: list[str]) -> tuple[str, tuple[int, str], int]:
    depth = rng.randrange(4, 24)
    chosen = [rng.randrange(_FUNCTIONS) for _ in range(depth)]
    frames = [
        f"\t{0xFFFFFFFF81000000 + number * 640 + 37:16x} {names[number]}+0x25 ([kernel.kallsyms])\n"
        for number in chosen
    ]
    leaf = rng.randrange(_FUNCTIONS)
    return "".join(frames), (0xFFFFFFFF81000000 + leaf * 640, names[leaf]), depth


def _user_frames(base: int, depth: int) -> str:
    return "".join(
        f"\t{0x7F0000000000 + base + 64 * level:16x} step_{level}+0x1c (/usr/lib/libwork.so.1)\n"
        for level in range(3 + depth % 4)
    )


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure both on one text, and faultprof's memory on texts of different length."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as directory:
        text, short = Path(directory, "script.txt"), Path(directory, "short.txt")
        write_script(text, SAMPLES)
        write_script(short, SAMPLES // 8)
        megabytes = text.stat().st_size / 1e6
        out = str(Path(directory, "out.fprof"))
        variants: dict[str, Callable[[], tuple[float, float]]] = {
            "import": partial(measure, "import", str(text), "-o", out),
            "perl": partial(_perl, text),
            "short": partial(measure, "import", str(short), "-o", out),
        }
        found = interleaved(variants, repeats, order)
    walls = {name: [wall for wall, _ in measured] for name, measured in found.items()}
    peaks = {name: [peak for _, peak in measured] for name, measured in found.items()}
    size = f"{megabytes:.0f} MB of perf script"
    return [
        Row(f"import of {size}: time", "s", tuple(walls["import"])),
        Row(f"one pass in perl over {size}: time", "s", tuple(walls["perl"])),
        Row("perl : import, time", "x", ratios(walls["perl"], walls["import"]), Goal("≥", 3)),
        Row(f"import of {size}: peak RSS", "MB", tuple(peaks["import"])),
        Row(
            "peak RSS of the whole : of an eighth of it",
            "x",
            ratios(peaks["import"], peaks["short"]),
            Goal("≤", 1.5),
        ),
    ]


def _perl(text: Path) -> tuple[float, float]:
    start = time.perf_counter()
    with text.open("rb") as file:
        done = subprocess.run(
            ["perl", str(SCRIPT)], stdin=file, stdout=subprocess.DEVNULL, check=False
        )
    if done.returncode != 0:
        sys.exit(f"bench: exit status {os.waitstatus_to_exitcode(done.returncode)} of perl")
    return time.perf_counter() - start, 0.0


SUBJECT = Subject(
    name="import",
    title=f"import of perf script's text, {SAMPLES:,} samples",
    rows=rows,
    repeats=7,
    needs_root=False,
)
