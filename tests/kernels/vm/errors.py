"""The harness's one way to fail, and the one way to run a tool that may fail.

A test that meets a `VmError` has an error of the harness before it, never a finding on faultprof.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class VmError(RuntimeError):
    """The harness could not do its part; the message says what to look at."""


class UnavailableError(VmError):
    """A virtual machine cannot be had here: something is missing and cannot be fetched."""


def tool(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run `command` and return its standard output; its last words are in the error if it fails.

    Raises:
        VmError: the command is missing or its status is not 0.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise VmError(f"{words[0]} is not installed") from None
    if done.returncode:
        last_words = (done.stdout + done.stderr)[-4000:]
        raise VmError(f"`{' '.join(words)}` ended with status {done.returncode}:\n{last_words}")
    return done.stdout


class EmulationRaceError(VmError):
    """The emulator ran stale code after another CPU of the guest had patched it.

    With a thread for each CPU (``tcg,thread=multi``) QEMU can execute the int3 with which Linux
    patches a static key after the kernel has put the final instruction there; the guest dies of
    "Oops: int3". Others see it without any probe: multipath-tcp/mptcp_net-next issue 471. It
    says nothing about what was tested.
    """
