"""Measures what is no pair of probes: the program at a context switch, and a sample.

Knows: how to have both happen often, by themselves.
Leaves to others: pairs of probes (``calibration``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from contextlib import closing
from pathlib import Path

from faultprof.bpf.probing import sampling_clock
from faultprof.capture.sampling import Sampler, SamplingOptions
from faultprof.capture.scope import Scope
from faultprof.recording.calibration import SAMPLE, SWITCH, Cost, Measured, shortest

_ROUNDS = 100
_CPUCLOCK_SCHED = 2  # clock_getcpuclockid(3), linux/posix-timers_types.h
_REPEATS = 40
_WORK = 400_000
_MOST_SAMPLES = 4999
_RATE_LIMIT = Path("/proc/sys/kernel/perf_event_max_sample_rate")


def switch_ns() -> Cost:
    """Return the ns of one context switch between two processes on one CPU."""
    return shortest([_ping_pong() for _ in range(_REPEATS)])


def _ping_pong() -> float:
    """Pass a byte to and fro and return the ns of one switch."""
    there, back = os.pipe(), os.pipe()
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    child = os.fork()
    if child == 0:
        while True:  # until it is killed
            os.write(back[1], os.read(there[0], 1))
    try:
        started = _cpu_ns(child)
        for _ in range(_ROUNDS):
            os.write(there[1], b"x")
            os.read(back[0], 1)
        return (_cpu_ns(child) - started) / (2 * _ROUNDS)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.sched_setaffinity(0, allowed)
        for end in (*there, *back):
            os.close(end)


def _cpu_ns(child: int) -> int:
    """Return the time on the CPU of this thread and of a process, whatever else runs there."""
    clock = ~child << 3 | _CPUCLOCK_SCHED
    return time.thread_time_ns() + time.clock_gettime_ns(clock)


def measured_switch(before: Cost) -> Measured:
    """Measure the switches with the program at sched_switch in place."""
    found = [_ping_pong() - before.value for _ in range(_REPEATS)]
    return Measured(SWITCH, 1, len(found), shortest(found))


def measured_sample() -> Measured:
    """Measure a sample: the time that some work takes more when it is sampled."""
    frequency = _sampling_frequency()
    unsampled = shortest([_work_ns() for _ in range(_REPEATS)]).value
    options = SamplingOptions(frequency, sampling_clock(), 1024, False, False)
    with closing(Sampler(Scope(os.getpid()), options)) as sampler:
        sampler.start()
        times = [_work_ns() for _ in range(_REPEATS)]
    found = [(ns - unsampled) / (frequency * ns / 1e9) for ns in times]
    return Measured(SAMPLE, 1, len(found), shortest(found))


def _sampling_frequency() -> int:
    """Return a frequency at which samples are many, and which this kernel allows."""
    with contextlib.suppress(OSError, ValueError):
        return min(_MOST_SAMPLES, int(_RATE_LIMIT.read_text()))
    return _MOST_SAMPLES


def _work_ns() -> int:
    started = time.thread_time_ns()
    for _ in range(_WORK):
        pass
    return time.thread_time_ns() - started
