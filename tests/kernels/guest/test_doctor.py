"""The doctor on a stock kernel, which it has to itself: run inside the guest, as root.

The truths here are the machine's own files and ``bpftool``; nothing else uses BPF in the guest.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faultprof.bpf.probing import Attempts, sampling_clock, try_everything, try_kprobe
from faultprof.capture.doctor import conclude
from faultprof.kernel.checks import Check, Diagnosis
from faultprof.kernel.features import file_checks
from faultprof.kernel.files import read_chosen
from faultprof.kernel.host import read_host

TRACING = Path("/sys/kernel/tracing")
LOCKDOWN = Path("/sys/kernel/security/lockdown")


@pytest.fixture(scope="module")
def attempts() -> Attempts:
    return try_everything()


@pytest.fixture(scope="module")
def here(attempts: Attempts) -> Diagnosis:
    return conclude(attempts)


@contextmanager
def setting(path: str, value: str) -> Iterator[None]:
    """Change a file of /proc/sys or /sys for a while."""
    file = Path(path)
    before = read_chosen(file) or file.read_text().strip()
    file.write_text(value)
    try:
        yield
    finally:
        file.write_text(before)


def locked_down() -> bool:
    """Return whether this boot forbids reading kernel memory (``lockdown=confidentiality``)."""
    return read_chosen(LOCKDOWN) == "confidentiality"


def check_now(name: str) -> Check:
    return next(check for check in file_checks(read_host()) if check.name == name)


@pytest.mark.parametrize(
    "name",
    [
        "privileges",
        "BPF",
        "bcc",
        "BTF",
        "kernel symbols",
        "fault tracepoints",
        "task tracepoints",
        "switch tracepoint",
        "lock tracepoints",
        "pid namespace",
    ],
)
def test_a_stock_kernel_has(here: Diagnosis, name: str) -> None:
    assert here.check(name).state == "ok", here.check(name)


def test_probes_work_unless_locked_down(here: Diagnosis) -> None:
    closed = locked_down()
    assert here.check("fentry").state == "ok"
    for name in ("kprobes", "tracefs"):
        assert here.check(name).state == ("missing" if closed else "ok"), here.check(name)
    assert here.check("lockdown").state == ("limited" if closed else "ok")
    works = {mode.name: mode.works for mode in here.modes}
    assert works["sample"]
    assert works["contention by tracepoints"]
    assert works["trace by kprobe"] is works["trace by fentry"] is not closed


def test_clock(here: Diagnosis) -> None:
    """The emulated processor has no PMU: nothing but the clock is left."""
    assert not list(Path("/sys/bus/event_source/devices").glob("cpu*"))
    assert sampling_clock() == "cpu-clock"
    assert here.check("perf events").state == "limited"


def test_init_on_alloc_as_the_kernel_said_at_boot(here: Diagnosis) -> None:
    log = subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"mem auto-init: .*heap alloc:(on|off)", log)
    assert match is not None
    asked = "init_on_alloc=" in Path("/proc/cmdline").read_text()
    config = Path(f"/boot/config-{read_host().release}")
    if asked or config.exists() or Path("/proc/config.gz").exists():
        assert here.check("init_on_alloc").found.split()[0] == match.group(1)
    else:
        assert here.check("init_on_alloc").state == "unknown"


def test_nothing_stays_attached(attempts: Attempts) -> None:
    """What did the trying still runs: whatever it held would be listed."""
    assert attempts.fentry.works
    listed = subprocess.run(["bpftool", "-j", "prog"], check=True, capture_output=True, text=True)
    assert json.loads(listed.stdout) == []
    if not locked_down():  # tracefs is empty then
        for name in ("kprobe_events", "enabled_functions"):
            assert (TRACING / name).read_text() == "", name


def test_kprobes_that_are_switched_off_are_not_taken_for_working(attempts: Attempts) -> None:
    switch = "/sys/kernel/debug/kprobes/enabled"
    if locked_down():
        assert not attempts.kprobe.works
        return
    with setting(switch, "0"):
        off = try_kprobe()
    assert not off.works
    assert "is not hit" in off.reason
    assert try_kprobe().works


def test_hidden_symbols(attempts: Attempts) -> None:
    with setting("/proc/sys/kernel/kptr_restrict", "2"):
        diagnosis = conclude(attempts)
    assert diagnosis.check("kernel symbols").state == "missing"
    assert diagnosis.check("kernel symbols").remedy == "sudo sysctl kernel.kptr_restrict=1"
    assert not diagnosis.mode("sample").works


def test_huge_page_settings() -> None:
    thp = "/sys/kernel/mm/transparent_hugepage/enabled"
    with setting(thp, "never"):
        assert check_now("huge pages (THP)").found.startswith("enabled never")
        assert check_now("huge pages (THP)").state == "limited"
    with setting(thp, "always"):
        assert check_now("huge pages (THP)").state == "ok"
    with setting("/proc/sys/vm/nr_overcommit_hugepages", "7"):
        assert check_now("hugetlb").state == "ok"
        assert "overcommit 7" in check_now("hugetlb").found
