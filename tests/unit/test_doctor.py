"""What the doctor concludes from the outcomes of trying, and how it says so."""

from __future__ import annotations

import errno
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from faultprof.bpf.bcc_package import BccPackage, Interpreter, explain_absence
from faultprof.bpf.probing import Attempt, Attempts
from faultprof.capture.doctor import conclude
from faultprof.kernel.checks import Diagnosis
from faultprof.kernel.tracefs import TRACEPOINT_GROUPS
from faultprof.render.doctor import doctor_lines
from faultprof.render.terminal import PIPE_WIDTH
from tests.machine_tree import USER_STATUS, build_machine, stock_machine

WORKS = Attempt(True)
NOT_PERMITTED = Attempt(False, "Operation not permitted (EPERM)", errno.EPERM)
ABSENT = Attempt(False, "No such file or directory (ENOENT)", errno.ENOENT)
EMPTY_BTF = b"\x9f\xeb\x01\0\x18\0\0\0" + b"\0" * 16
TRACEPOINTS = [name for group in TRACEPOINT_GROUPS for name in group.names]

ALL_WORKS = Attempts(
    bpf=WORKS,
    read_kernel=WORKS,
    clocks={"cycles": WORKS, "cpu-clock": WORKS},
    kprobe=WORKS,
    fentry=WORKS,
    tracepoints=dict.fromkeys(TRACEPOINTS, WORKS),
    bcc_package=BccPackage("0.31.0", installed=True),
    bcc=WORKS,
    bcc_fentry=WORKS,
)
NOTHING_PERMITTED = Attempts(
    bpf=NOT_PERMITTED,
    read_kernel=NOT_PERMITTED,
    clocks={"cycles": NOT_PERMITTED, "cpu-clock": NOT_PERMITTED},
    kprobe=NOT_PERMITTED,
    fentry=NOT_PERMITTED,
    tracepoints=dict.fromkeys(TRACEPOINTS, NOT_PERMITTED),
    bcc_package=BccPackage("0.31.0", installed=True),
    bcc=NOT_PERMITTED,
    bcc_fentry=NOT_PERMITTED,
)


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    return stock_machine(tmp_path)


def as_user(root: Path) -> Path:
    (root / "proc/self/status").unlink()
    return build_machine(root, {"proc/self/status": USER_STATUS})


def working(diagnosis: Diagnosis) -> set[str]:
    return {mode.name for mode in diagnosis.modes if mode.works}


class TestModes:
    def test_a_stock_machine(self, stock: Path) -> None:
        assert conclude(ALL_WORKS, stock).check("BTF").state == "missing"  # the tree has none
        assert working(conclude(ALL_WORKS, stock)) == {
            "sample",
            "trace by kprobe",
            "contention by tracepoints",
        }

    def test_without_kprobes_and_a_pmu(self, stock: Path) -> None:
        attempts = replace(
            ALL_WORKS,
            kprobe=Attempt(False, "this kernel has no kprobe events"),
            clocks={"cycles": ABSENT, "cpu-clock": WORKS},
        )
        diagnosis = conclude(attempts, stock)
        assert working(diagnosis) == {"sample", "contention by tracepoints"}
        assert diagnosis.mode("sample").why == "cpu-clock, at most 100000 Hz"
        assert diagnosis.mode("trace by kprobe").why == "kprobes: this kernel has no kprobe events"
        assert diagnosis.check("perf events").state == "limited"
        assert "interrupts off" in diagnosis.check("perf events").cost

    @pytest.mark.parametrize(
        "broken",
        [
            replace(ALL_WORKS, bpf=ABSENT),
            replace(ALL_WORKS, bcc=Attempt(False, "cannot compile feature.bpf.c")),
            replace(ALL_WORKS, bcc_package=BccPackage(None, "not installed")),
            replace(ALL_WORKS, clocks={"cycles": ABSENT, "cpu-clock": ABSENT}),
            replace(ALL_WORKS, tracepoints={**ALL_WORKS.tracepoints, "sched_process_free": ABSENT}),
        ],
    )
    def test_sampling_needs(self, stock: Path, broken: Attempts) -> None:
        assert not conclude(broken, stock).mode("sample").works

    def test_hidden_symbols_make_samples_worthless(self, stock: Path) -> None:
        (stock / "proc/kallsyms").write_text("0000000000000000 T _stext\n")
        sampling = conclude(ALL_WORKS, stock).mode("sample")
        assert not sampling.works
        assert sampling.why.startswith("kernel symbols: ")

    def test_one_end_of_the_lock_tracepoints_is_not_enough(self, stock: Path) -> None:
        outcomes = {**ALL_WORKS.tracepoints, "contention_end": ABSENT}
        diagnosis = conclude(replace(ALL_WORKS, tracepoints=outcomes), stock)
        assert diagnosis.check("lock tracepoints").state == "limited"
        assert not diagnosis.mode("contention by tracepoints").works

    def test_sampling_does_without_fault_tracepoints(self, stock: Path) -> None:
        outcomes = {**ALL_WORKS.tracepoints, "page_fault_user": ABSENT, "page_fault_kernel": ABSENT}
        diagnosis = conclude(replace(ALL_WORKS, tracepoints=outcomes), stock)
        assert diagnosis.check("fault tracepoints").state == "missing"
        assert "read faults" in diagnosis.check("fault tracepoints").cost
        assert diagnosis.mode("sample").works

    def test_fentry_that_bcc_cannot_use(self, stock: Path) -> None:
        build_machine(stock, {"sys/kernel/btf/vmlinux": EMPTY_BTF})
        assert conclude(ALL_WORKS, stock).mode("trace by fentry").works
        attempts = replace(ALL_WORKS, bcc_fentry=Attempt(False, "cannot compile"))
        diagnosis = conclude(attempts, stock)
        assert not diagnosis.mode("trace by fentry").works
        assert diagnosis.mode("trace by kprobe").works


class TestAnotherUser:
    def test_what_cannot_be_tried_is_unknown_and_the_command_is_named(self, stock: Path) -> None:
        diagnosis = conclude(NOTHING_PERMITTED, as_user(stock))
        for name in ("BPF", "bcc", "perf events", "kprobes", "fentry", "lock tracepoints"):
            assert diagnosis.check(name).state == "unknown", name
            assert diagnosis.check(name).remedy == "sudo faultprof doctor", name
        assert working(diagnosis) == set()
        assert diagnosis.mode("sample").remedy == "sudo faultprof doctor"

    def test_listed_tracepoints(self, stock: Path) -> None:
        diagnosis = conclude(NOTHING_PERMITTED, as_user(stock))
        check = diagnosis.check("fault tracepoints")
        assert check.state == "unknown"
        assert check.found.endswith("listed; attaching is not permitted")
        shutil.rmtree(stock / "sys/kernel/tracing/events/exceptions/page_fault_kernel")
        check = conclude(NOTHING_PERMITTED, stock).check("fault tracepoints")
        assert check.state == "missing"
        assert "sudo" not in check.remedy

    def test_a_kernel_that_refuses_root(self, stock: Path) -> None:
        check = conclude(replace(ALL_WORKS, fentry=NOT_PERMITTED), stock).check("fentry")
        assert check.state == "missing"
        assert check.found == "refused even to root: Operation not permitted (EPERM)"


class TestLockdown:
    def test_confidentiality(self, stock: Path) -> None:
        (stock / "sys/kernel/security/lockdown").write_text("none integrity [confidentiality]\n")
        build_machine(stock, {"sys/kernel/btf/vmlinux": EMPTY_BTF})
        # As seen on Debian's 6.12: fentry attaches all the same.
        attempts = replace(ALL_WORKS, read_kernel=NOT_PERMITTED, kprobe=NOT_PERMITTED)
        diagnosis = conclude(attempts, stock)
        assert diagnosis.check("lockdown").state == "limited"
        assert working(diagnosis) == {"sample", "contention by tracepoints"}
        for name in ("kprobes", "lockdown"):
            assert diagnosis.check(name).remedy.startswith("boot with lockdown="), name
        assert diagnosis.mode("trace by fentry").why.startswith("lockdown: ")

    @pytest.mark.parametrize("level", ["none", "integrity"])
    def test_weaker_levels_cost_nothing(self, stock: Path, level: str) -> None:
        (stock / "sys/kernel/security/lockdown").write_text(f"x [{level}] y\n")
        assert conclude(ALL_WORKS, stock).check("lockdown").state == "ok"

    def test_level_unknown_but_memory_readable(self, tmp_path: Path) -> None:
        assert conclude(ALL_WORKS, tmp_path).check("lockdown").state == "ok"
        refused = replace(ALL_WORKS, read_kernel=NOT_PERMITTED)
        assert conclude(refused, tmp_path).check("lockdown").state == "unknown"


class TestBccPackage:
    SYSTEM = Interpreter(Path("/usr"), Path("/usr"))

    @pytest.fixture
    def debian(self, tmp_path: Path) -> Path:
        return build_machine(tmp_path, {"usr/lib/python3/dist-packages/bcc/__init__.py": ""})

    def venv(self, root: Path, setting: str) -> Interpreter:
        build_machine(root, {"venv/pyvenv.cfg": f"home = /usr/bin\n{setting}\n"})
        return Interpreter(root / "venv", Path("/usr"))

    def test_not_installed(self, tmp_path: Path) -> None:
        assert explain_absence(self.SYSTEM, "no module", tmp_path) == BccPackage(
            None, "not installed"
        )

    def test_hidden_from_a_closed_venv(self, debian: Path) -> None:
        closed = self.venv(debian, "include-system-site-packages = false")
        package = explain_absence(closed, "no module", debian)
        assert package.installed
        assert package.reason == (
            "installed in /usr/lib/python3/dist-packages/bcc, but this venv was made without "
            "--system-site-packages"
        )

    def test_of_another_python(self, debian: Path) -> None:
        other = Interpreter(debian / "venv", Path("/opt/python3.13"))
        assert "belongs to /opt/python3.13" in explain_absence(other, "no module", debian).reason

    def test_broken(self, debian: Path) -> None:
        opened = self.venv(debian, "include-system-site-packages = true")
        package = explain_absence(opened, "libbcc.so.0: cannot open", debian)
        assert package.reason.endswith("but broken: libbcc.so.0: cannot open")

    def test_fedora(self, tmp_path: Path) -> None:
        build_machine(tmp_path, {"usr/lib/python3.13/site-packages/bcc/__init__.py": ""})
        assert explain_absence(self.SYSTEM, "", tmp_path).installed

    @pytest.mark.parametrize(
        ("package", "remedy"),
        [
            (BccPackage(None, "not installed"), "sudo apt install python3-bpfcc"),
            (
                BccPackage(None, "hidden", installed=True),
                "/usr/bin/python3 -m venv --system-site-packages .venv",
            ),
        ],
    )
    def test_remedy(self, stock: Path, package: BccPackage, remedy: str) -> None:
        attempts = replace(ALL_WORKS, bcc_package=package, bcc=Attempt(False, "no bcc"))
        diagnosis = conclude(attempts, stock)
        assert diagnosis.check("bcc").state == "missing"
        assert diagnosis.check("bcc").remedy == remedy
        assert diagnosis.mode("sample").remedy == remedy


class TestText:
    def test_of_a_stock_machine(self, stock: Path, snapshot: SnapshotAssertion) -> None:
        assert "\n".join(doctor_lines(conclude(ALL_WORKS, stock))) == snapshot

    def test_of_another_user(self, stock: Path, snapshot: SnapshotAssertion) -> None:
        lines = doctor_lines(conclude(NOTHING_PERMITTED, as_user(stock)))
        assert "\n".join(lines) == snapshot

    def test_fits_80_columns_and_carries_every_word(self, stock: Path) -> None:
        diagnosis = conclude(NOTHING_PERMITTED, as_user(stock))
        lines = doctor_lines(diagnosis)
        assert max(map(len, lines)) <= PIPE_WIDTH
        flowing = " ".join(" ".join(lines).split())
        for check in diagnosis.checks:
            for part in (check.found, check.cost, check.remedy):
                assert " ".join(part.split()) in flowing

    def test_colour_changes_nothing_else(self, stock: Path) -> None:
        diagnosis = conclude(ALL_WORKS, stock)
        plain, coloured = doctor_lines(diagnosis), doctor_lines(diagnosis, colour=True)
        assert "\x1b" not in "".join(plain)
        assert coloured != plain
        assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain

    def test_escape_sequences_of_others_are_shown_not_sent(self, stock: Path) -> None:
        (stock / "etc/os-release").write_text('PRETTY_NAME="\x1b[31mEvil"\n')
        assert "\x1b" not in "".join(doctor_lines(conclude(ALL_WORKS, stock)))


def test_json_has_the_same_findings(stock: Path) -> None:
    diagnosis = conclude(ALL_WORKS, stock)
    data = json.loads(json.dumps(diagnosis.to_json()))
    assert set(data) == {"checks", "modes", "kernel"}
    assert [check["name"] for check in data["checks"]] == [c.name for c in diagnosis.checks]
    assert set(data["checks"][0]) == {"name", "state", "found", "cost", "remedy"}
    assert {mode["name"]: mode["works"] for mode in data["modes"]} == {
        mode.name: mode.works for mode in diagnosis.modes
    }
    assert data["kernel"]["release"] == "6.1.0-37-amd64"
