"""A shell whose commands are traced, for tests that know what a command makes the kernel call.

Knows: how to have a command do the same each time, and what a trace counted of a part of it.
Leaves to others: the commands (touch.c, around.c) and the answers.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultprof.capture.options import Attach
    from faultprof.capture.trace_totals import NodeTotals
    from faultprof.capture.tracing import Tracer

# What the tests of test_trace_answers.py ask for.
FUNCTIONS: tuple[str, ...] = (
    "handle_mm_fault",
    "__handle_mm_fault",
    "do_anonymous_page",
    "do_fault",
    "do_read_fault",
    "do_cow_fault",
    "do_shared_fault",
    "do_wp_page",
    "shmem_fault",
    "do_huge_pmd_anonymous_page",
    "hugetlb_fault",
    "folio_zero_user",
    "folio_add_lru",
)

# Without rseq(2), see touch.c.
_ENVIRONMENT = {**os.environ, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


class Shell:
    """A shell that runs commands one at a time, without address-space randomisation.

    First in, first out: tasks of this policy do not preempt each other. Where a kernel preempts
    itself (7.3), an fentry program can be preempted, and the kernel skips it (and counts that) for
    all tasks that run on the CPU meanwhile.
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["chrt", "--fifo", "1", "setarch", "-R", "sh"],
            env=_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def say(self, line: str) -> str:
        """Give a line to whatever reads now, and return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        return self.process.stdout.readline()

    def close(self) -> None:
        """End the shell."""
        self.process.kill()
        self.process.wait()


class TracedShell:
    """A shell and a tracer of some functions in whatever it runs."""

    def __init__(self, attach: Attach, functions: tuple[str, ...] = FUNCTIONS) -> None:
        self.attach = attach
        with ExitStack() as undo:
            self.shell = undo.enter_context(closing(Shell()))
            tracer = _tracer(self.shell.process.pid, attach, functions)
            self.tracer = undo.enter_context(closing(tracer))
            self.tracer.start()
            self._undo = undo.pop_all()

    def begin(self, command: str) -> None:
        """Start a program that works in rounds, as touch.c does."""
        assert self.shell.say(f"{command}; echo $?") == "\n", command

    def next_round(self) -> None:
        """Have the program do a round."""
        assert self.shell.say("") == "\n"

    def end(self) -> None:
        """Have the program end, after its last round."""
        assert self.shell.say("") == "0\n"

    def calls_by_round(self, command: str, rounds: int) -> list[dict[str, int]]:
        """Return how often each function is called in each round of a program."""
        self.begin(command)
        counts = [self.tracer.calls()]
        for _ in range(rounds):
            self.next_round()
            counts.append(self.tracer.calls())
        self.end()
        return [
            {name: after[name] - before[name] for name in after}
            for before, after in pairwise(counts)
        ]

    def skipped(self) -> int:
        """Return how many hits the kernel has skipped so far, in whatever task."""
        return sum(self.tracer.misses().values()) + self.tracer.kprobe_misses()

    def close(self) -> None:
        """End the shell, detach the probes."""
        self._undo.close()


def _tracer(pid: int, attach: Attach, functions: tuple[str, ...]) -> Tracer:
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.scope import Scope
    from faultprof.capture.trace_setup import trace_plan
    from faultprof.capture.tracing import Tracer
    from faultprof.kernel.view import KernelView

    view = KernelView.read()
    assert view.types is not None
    options = RecordOptions(Path("unused"), functions=functions, attach=attach)
    tracer = Tracer(Scope(pid), trace_plan(options, view), view.types)
    assert not tracer.failed
    return tracer


def assert_consistent(nodes: dict[tuple[str, ...], NodeTotals]) -> None:
    """Demand of a call tree that it adds up, to the nanosecond."""
    assert nodes
    for path, totals in nodes.items():
        children = [one for other, one in nodes.items() if other[:-1] == path]
        assert all(child.inclusive_ns <= totals.inclusive_ns for child in children), path
        below = sum(child.inclusive_ns for child in children)
        assert totals.inclusive_ns == totals.self_ns + below, path
        assert sum(totals.histogram) in (totals.calls, 0), path


def compiled(source: str, directory: Path) -> Path:
    """Compile a C program that stands beside the tests."""
    program = directory / Path(source).stem
    path = Path(__file__).with_name(source)
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, path], check=True)
    return program


@contextmanager
def setting(file: str, value: str) -> Iterator[None]:
    """Change a setting of the kernel for a while."""
    path = Path(file)
    before = path.read_text()
    chosen = before.partition("[")[2].partition("]")[0]  # "always [madvise] never"
    path.write_text(value)
    try:
        yield
    finally:
        path.write_text(chosen or before)
