"""The guest tests of one kernel: one boot, one pytest session, one outcome per test.

`tests/kernels/guest/conftest.py` writes the outcomes in the guest, as lines of JSON;
`tests/kernels/conftest.py` shows each as a test of the outer session.

Compiling one of our BPF programs takes ten seconds and more under emulation. What faultprof keeps
of that in its cache goes from session to session of the same kernel; changed sources are compiled.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import apt, cache
from .errors import EmulationRaceError, UnavailableError, VmError
from .images import REPOSITORY, USERLANDS, image
from .kernels import Kernel, install
from .machine import Machine, Result
from .source import source_tree

OUTCOMES = Path("/results/outcomes.jsonl")
RECORDINGS = Path("/results/recordings")
"""What guest tests leave there the outer session gets."""
"""Where the guest session leaves its outcomes."""
TIMEOUT_S = 2400
RACES = 5
"""How often a session may start when QEMU's own race ends it."""
TESTS_FAILED = 1
"""pytest's exit status when it ran to the end and some tests failed."""

_SCRIPT = """\
echo "guest session on $(uname -r)"
cd /job/src
export FAULTPROF_KERNELS={kernel}
mkdir -p /results/bytecode ~/.cache/faultprof
cp -r /job/bytecode ~/.cache/faultprof/bpf 2>/dev/null
python -m pytest -p no:cacheprovider -p no:hypothesispytest \\
    --confcutdir=tests/kernels/guest {tests}
status=$?
cp ~/.cache/faultprof/bpf/* /results/bytecode 2>/dev/null
exit $status
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one test."""

    test: str
    """pytest's node id, the same inside and outside."""
    outcome: str
    """passed, failed, skipped or xfailed."""
    text: str
    """What the test printed; if it failed, how; if it was skipped, why."""

    def to_json(self) -> str:
        """Return the outcome as one line of JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class GuestSession:
    """A guest session that came to its end."""

    outcomes: Mapping[str, Outcome]
    """By node id."""
    summary: str
    """One line: the kernel and how long it took."""
    recordings: Mapping[str, bytes]
    """What the tests left in RECORDINGS, by name."""


def prepare(kernel: Kernel) -> Machine:
    """Return the machine that `kernel` is tested in, from the cache or made.

    Raises:
        UnavailableError: this machine cannot make it; the message says why.
    """
    try:
        apt.requirements()
        return Machine(install(kernel), image(USERLANDS[kernel.userland]))
    except VmError as error:
        raise UnavailableError(f"no virtual machine with Linux {kernel.name}: {error}") from error


def run(
    machine: Machine, tests: Sequence[str], on_output: Callable[[bytes], object]
) -> GuestSession:
    """Boot `machine` and run the guest tests with the node ids `tests`.

    The guest's output is handed to `on_output` as it comes.

    Raises:
        VmError: the session did not come to its end.
    """
    name, release = machine.installed.kernel.name, machine.installed.release
    script = _SCRIPT.format(kernel=name, tests=shlex.join(tests))
    kept = cache.root() / f"bytecode-{release}"
    result = run_script(machine, script, {"bytecode": kept} if kept.is_dir() else {}, on_output)
    _keep_bytecode(result, kept)
    if result.status not in (0, TESTS_FAILED):
        raise VmError(f"pytest in the guest ended with status {result.status}:\n{result.output}")
    lines = result.files[OUTCOMES.name].decode().splitlines()
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    summary = (
        f"{name} ({release}): {len(outcomes)} tests in {result.total_s:.1f} s, "
        f"{result.boot_s:.1f} s of it until the first command"
    )
    left = {
        Path(path).name: data
        for path, data in result.files.items()
        if path.startswith(f"{RECORDINGS.name}/")
    }
    return GuestSession({outcome.test: outcome for outcome in outcomes}, summary, left)


def _keep_bytecode(result: Result, directory: Path) -> None:
    """Write what the guest has compiled to ``directory``, each file as a whole or not at all."""
    directory.mkdir(exist_ok=True)
    for path, data in result.files.items():
        if path.startswith("bytecode/") and not (directory / Path(path).name).exists():
            temporary = directory / f".{Path(path).name}.{os.getpid()}"
            temporary.touch(0o600)
            temporary.write_bytes(data)
            temporary.rename(directory / Path(path).name)


def run_script(
    machine: Machine,
    script: str,
    files: Mapping[str, Path] | None = None,
    on_output: Callable[[bytes], object] = lambda _: None,
    *,
    timeout: float = TIMEOUT_S,
) -> Result:
    """Run `script` beside the source tree, anew if the emulator itself went wrong.

    Raises:
        VmError: as Machine.run; EmulationRaceError if it went wrong each time.
    """
    for attempt in range(RACES):
        try:
            job = {**source_tree(REPOSITORY), **(files or {})}
            return machine.run(script, job, timeout=timeout, on_output=on_output)
        except EmulationRaceError:
            if attempt == RACES - 1:
                raise
            on_output(b"QEMU ran stale code; the guest session starts anew\n")
    raise AssertionError("unreachable")
