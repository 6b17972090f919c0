"""The doctor: what this machine offers, what its lack costs, and which modes work here.

Knows: what each outcome of ``bpf.probing`` means to the user, and what each mode needs.
Leaves to others: trying (``bpf.probing``), reading files (``kernel.features``), printing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from faultprof.bpf.bcc_package import REMAKE_VENV
from faultprof.bpf.probing import TARGET, Attempt, Attempts, try_everything
from faultprof.capture.modes import judge_modes
from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.checks import Check, Diagnosis, State
from faultprof.kernel.features import file_checks
from faultprof.kernel.files import ROOT, read_int
from faultprof.kernel.host import Host, read_host, stock_kernel
from faultprof.kernel.privileges import LESS_LOCKDOWN, lockdown_level, privileges_check
from faultprof.kernel.tracefs import TRACEPOINT_GROUPS, TracepointGroup, is_listed

_ORDER = (
    "privileges",
    "BPF",
    "bcc",
    "perf events",
    "kprobes",
    "fentry",
    "BTF",
    "kernel symbols",
    "debuginfo",
    *(group.check for group in TRACEPOINT_GROUPS),
    "tracefs",
    "huge pages (THP)",
    "hugetlb",
    "init_on_alloc",
    "pid namespace",
    "lockdown",
)

_TRACEPOINT_REMEDY = stock_kernel("CONFIG_TRACEPOINTS")


def diagnose(sysroot: Path = ROOT) -> Diagnosis:
    """Try and read everything; takes about a second, and leaves nothing attached."""
    return conclude(try_everything(sysroot), sysroot)


def conclude(attempts: Attempts, sysroot: Path = ROOT) -> Diagnosis:
    """Turn the outcomes of trying, and what files below ``sysroot`` say, into a diagnosis."""
    host = read_host(sysroot)
    tried = attempt_checks(attempts, host, sysroot)
    by_name = {check.name: check for check in (*file_checks(host, sysroot), *tried)}
    checks = tuple(by_name[name] for name in _ORDER)
    return Diagnosis(
        checks=checks,
        modes=judge_modes(by_name),
        kernel={
            "release": host.release,
            "machine": host.machine,
            "build_id": kernel_build_id(sysroot),
            "distribution": host.distribution,
        },
    )


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the checks below are drawn from; ``permit`` is how to be permitted to try, if not."""

    attempts: Attempts
    host: Host
    sysroot: Path
    permit: str

    @property
    def lockdown(self) -> tuple[str, str] | None:
        """The lockdown level and where it was read."""
        return lockdown_level(self.host.release, self.sysroot)

    @property
    def locked_down(self) -> bool:
        """Whether kernel memory is closed to everybody."""
        known = self.lockdown
        closed = known is not None and known[0] == "confidentiality"
        return closed and not self.attempts.read_kernel.works


def attempt_checks(attempts: Attempts, host: Host, sysroot: Path = ROOT) -> tuple[Check, ...]:
    """Return the checks that follow from trying."""
    evidence = _Evidence(attempts, host, sysroot, permit=privileges_check(sysroot).remedy)
    return (
        _bpf_check(evidence),
        _bcc_check(evidence),
        _perf_check(evidence),
        _kprobe_check(evidence),
        _fentry_check(evidence),
        *(_tracepoint_check(evidence, group) for group in TRACEPOINT_GROUPS),
        _lockdown_check(evidence),
    )


def _bpf_check(evidence: _Evidence) -> Check:
    if evidence.attempts.bpf.works:
        return Check("BPF", "ok", "a sampling program loads")
    cost = "nothing can be recorded"
    return _failed("BPF", evidence.attempts.bpf, evidence, cost, "CONFIG_BPF_SYSCALL")


def _bcc_check(evidence: _Evidence) -> Check:
    name, attempts = "bcc", evidence.attempts
    package = attempts.bcc_package
    cost = "nothing can be recorded; reports of existing recordings work"
    if package.version is None:
        remedy = REMAKE_VENV if package.installed else evidence.host.install_bcc
        return Check(name, "missing", package.reason, cost, remedy)
    if not attempts.bpf.works:
        found = f"{package.version}; not tried, as no BPF program loads"
        return Check(name, "unknown", found, "", evidence.permit)
    if not attempts.bcc.works:
        found = f"{package.version}: {attempts.bcc.reason}"
        return Check(name, "missing", found, cost, evidence.host.install_bcc)
    if attempts.fentry.works and not attempts.bcc_fentry.works:
        found = f"{package.version}; no fentry through it: {attempts.bcc_fentry.reason}"
        cost = "tracing must use kprobes, which disturb more"
        return Check(name, "limited", found, cost, "a newer bcc")
    return Check(name, "ok", f"{package.version}; compiles and loads, without kernel headers")


def _perf_check(evidence: _Evidence) -> Check:
    name, clocks = "perf events", evidence.attempts.clocks
    limit = read_int(evidence.sysroot / "proc/sys/kernel/perf_event_max_sample_rate")
    at_most = f", at most {limit} Hz" if limit else ""
    if clocks["cycles"].works:
        return Check(name, "ok", f"cycles{at_most}")
    if clocks["cpu-clock"].works:
        cost = (
            f"no cycles event ({clocks['cycles'].reason}): code that runs with interrupts off "
            "is charged to the instruction that turns them on again"
        )
        remedy = "a machine with a PMU; for a virtual one, pass the host's PMU through"
        return Check(name, "limited", f"cpu-clock{at_most}", cost, remedy)
    return _failed(name, clocks["cpu-clock"], evidence, "no sampling", "CONFIG_PERF_EVENTS")


def _kprobe_check(evidence: _Evidence) -> Check:
    attempt = evidence.attempts.kprobe
    if attempt.works:
        return Check("kprobes", "ok", f"one at {TARGET} was attached, hit and removed")
    cost = "no exact calls and times by kprobe"
    return _failed("kprobes", attempt, evidence, cost, "CONFIG_KPROBE_EVENTS")


def _fentry_check(evidence: _Evidence) -> Check:
    attempt = evidence.attempts.fentry
    if attempt.works:
        return Check("fentry", "ok", f"one at {TARGET} was attached and removed")
    cost = "no exact calls and times by fentry, the cheapest probe"
    return _failed("fentry", attempt, evidence, cost, "CONFIG_FUNCTION_TRACER")


def _tracepoint_check(evidence: _Evidence, group: TracepointGroup) -> Check:
    outcomes = {name: evidence.attempts.tracepoints[name] for name in group.names}
    refused = any(outcome.not_permitted for outcome in outcomes.values())
    if refused and evidence.permit:
        there = {name: is_listed(group, name, evidence.sysroot) for name in group.names}
        found = f"{group.folder}: {', '.join(group.names)}; {_listing(list(there.values()))}"
        if False in there.values():
            return Check(group.check, "missing", found, group.cost, _TRACEPOINT_REMEDY)
        return Check(group.check, "unknown", found, group.cost, evidence.permit)
    works = [name for name, outcome in outcomes.items() if outcome.works]
    if len(works) == len(outcomes):
        return Check(group.check, "ok", f"{group.folder}: {', '.join(works)}")
    reasons = (f"{name}: {o.reason}" for name, o in outcomes.items() if not o.works)
    found = f"{group.folder}: {'; '.join(reasons)}"
    state: State = "limited" if works else "missing"
    return Check(group.check, state, found, group.cost, _TRACEPOINT_REMEDY)


def _listing(there: list[bool | None]) -> str:
    if False in there:
        return "not listed by this kernel"
    if None in there:
        return "neither tracefs nor BTF tells, and attaching is not permitted"
    return "listed; attaching is not permitted"


def _lockdown_check(evidence: _Evidence) -> Check:
    name, reading = "lockdown", evidence.attempts.read_kernel
    known = evidence.lockdown
    if known is None and reading.works:
        return Check(name, "ok", "level not shown, but BPF may read kernel memory")
    if known is None:
        found = "level not shown"
        remedy = "sudo mount -t securityfs securityfs /sys/kernel/security"
        return Check(name, "unknown", found, "", evidence.permit or remedy)
    level, source = known
    if evidence.locked_down:
        cost = "no tracing: no kprobes, and BPF programs may not read kernel memory"
        return Check(name, "limited", f"{level} ({source})", cost, LESS_LOCKDOWN)
    return Check(name, "ok", f"{level} ({source}); forbids nothing that faultprof does")


def _failed(name: str, attempt: Attempt, evidence: _Evidence, cost: str, option: str) -> Check:
    """Return the check for what did not work; ``option`` is the one that a kernel needs for it."""
    if not attempt.not_permitted:
        return Check(name, "missing", attempt.reason, cost, stock_kernel(option))
    if evidence.permit:
        found = f"this user may not try: {attempt.reason}"
        return Check(name, "unknown", found, cost, evidence.permit)
    found = f"refused even to root: {attempt.reason}"
    if evidence.locked_down:
        return Check(name, "missing", found, cost, LESS_LOCKDOWN)
    remedy = "run outside of containers, on a stock Debian or Fedora kernel"
    return Check(name, "missing", found, cost, remedy)
