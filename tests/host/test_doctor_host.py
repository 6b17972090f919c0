"""The doctor on this machine, against what other tools say about it."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faultprof.bpf.probing import TARGET, sampling_clock
from faultprof.capture.doctor import diagnose
from faultprof.kernel.btf_types import BtfTypes
from faultprof.kernel.build_id import elf_build_id, kernel_build_id
from faultprof.kernel.checks import Diagnosis
from faultprof.kernel.hugepages import init_on_alloc
from faultprof.kernel.privileges import require_privileges
from faultprof.kernel.tracefs import TRACEPOINT_GROUPS

REPOSITORY = Path(__file__).parents[2]
DOCTOR = (sys.executable, "-m", "faultprof", "doctor")
NOBODY = 65534


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_doctor(
    *options: str, under: Sequence[str] = (), python: Sequence[str] = DOCTOR, **settings: Any
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*under, *python, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **settings,
    )


def checks_of(run: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(run.stdout)["checks"]}


@pytest.fixture(scope="module")
def here() -> Diagnosis:
    return diagnose()


@pytest.fixture(scope="module")
def config() -> str:
    """Return this kernel's build configuration, as it shows it itself."""
    return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()


def perf_counts(event: str) -> bool:
    """Return whether perf can count an event."""
    run = subprocess.run(
        ["perf", "stat", "-x,", "-e", event, "true"], capture_output=True, text=True, check=False
    )
    return run.returncode == 0 and re.match(r"\d", run.stderr) is not None


class TestAgainstOtherTools:
    def test_bpf(self, here: Diagnosis) -> None:
        features = output_of("bpftool", "feature", "probe", "kernel")
        available = "eBPF program_type perf_event is available" in features
        assert (here.check("BPF").state == "ok") is available

    def test_clock(self, here: Diagnosis) -> None:
        clock = "cycles" if perf_counts("cycles") else "cpu-clock"
        assert sampling_clock() == clock
        assert here.check("perf events").found.startswith(clock)
        assert here.check("perf events").state == ("ok" if clock == "cycles" else "limited")

    def test_kprobes(self, here: Diagnosis, config: str) -> None:
        built_in = "\nCONFIG_KPROBE_EVENTS=y\n" in config
        assert here.check("kprobes").state == ("ok" if built_in else "missing")
        assert here.mode("trace by kprobe").works is built_in

    def test_tracepoints(self, here: Diagnosis) -> None:
        types = output_of("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux")
        for name in ("page_fault_user", "sched_process_free", "contention_end"):
            assert f"'btf_trace_{name}'" in types
        for check in (group.check for group in TRACEPOINT_GROUPS):
            assert here.check(check).state == "ok"

    def test_btf_id(self) -> None:
        types = output_of("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux")
        match = re.search(rf"^\[(\d+)\] FUNC '{TARGET}'", types, re.MULTILINE)
        assert match is not None
        known = BtfTypes.read()
        assert known is not None
        assert known.function_id(TARGET) == int(match.group(1))

    def test_build_id_of_the_kernel(self, here: Diagnosis) -> None:
        assert kernel_build_id() == output_of("perf", "buildid-list", "--kernel").strip()
        assert here.kernel["build_id"] == kernel_build_id()
        assert here.kernel["release"] == output_of("uname", "-r").strip()

    @pytest.mark.parametrize("program", ["/bin/ls", "/usr/bin/python3", "/usr/bin/perf"])
    def test_build_id_of_a_file(self, program: str) -> None:
        match = re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", program))
        assert elf_build_id(Path(program)) == (match.group(1) if match else None)

    def test_init_on_alloc(self) -> None:
        # The kernel says at boot what it decided on.
        match = re.search(r"mem auto-init: .*heap alloc:(on|off)", output_of("dmesg"))
        if match is None:
            pytest.skip("the kernel's boot messages are no longer in its log")
        setting = init_on_alloc(os.uname().release)
        assert setting is not None
        assert setting[0] is (match.group(1) == "on")

    def test_bcc(self, here: Diagnosis) -> None:
        import bcc

        assert here.check("bcc").state == "ok"
        assert here.check("bcc").found.startswith(bcc.__version__ + ";")

    def test_symbols(self, here: Diagnosis) -> None:
        shown = re.search(
            r"^0*[1-9a-f][0-9a-f]* T _stext$", output_of("cat", "/proc/kallsyms"), re.M
        )
        assert (here.check("kernel symbols").state == "ok") is (shown is not None)


class TestTheMachineIsLeftAsItWas:
    def test_nothing_stays_open(self) -> None:
        def kernel_objects() -> list[str]:
            links = (
                link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
            )
            return sorted(str(link) for link in links if "anon_inode" in str(link))

        diagnose()  # imports bcc, which keeps files open
        before = kernel_objects()
        diagnose()
        assert kernel_objects() == before
        assert not [name for name in before if "bpf" in name or "perf" in name]

    def test_nothing_is_mounted(self) -> None:
        before = Path("/proc/self/mounts").read_text()
        diagnose()
        assert Path("/proc/self/mounts").read_text() == before


class TestCommand:
    def test_success_and_text(self, here: Diagnosis) -> None:
        run = run_doctor()
        assert run.returncode == (0 if here.mode("sample").works else 3)
        assert run.stderr == ""
        assert "\x1b" not in run.stdout
        assert max(map(len, run.stdout.splitlines())) <= 80
        for name in ("BPF", "kprobes", "init_on_alloc", "What works here:"):
            assert name in run.stdout

    def test_json(self) -> None:
        run = run_doctor("--json")
        data = json.loads(run.stdout)
        assert list(data) == ["checks", "modes", "kernel"]
        assert {check["state"] for check in data["checks"]} <= {
            "ok",
            "limited",
            "missing",
            "unknown",
        }

    @pytest.mark.parametrize(
        ("variables", "coloured"),
        [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    )
    def test_colour_on_a_terminal(self, variables: dict[str, str], coloured: bool) -> None:
        environment = {**os.environ, "TERM": "xterm", **variables}
        if "NO_COLOR" not in variables:
            environment.pop("NO_COLOR", None)
        run = subprocess.run(
            ["script", "-qec", " ".join(DOCTOR), "/dev/null"],
            env=environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "privileges" in run.stdout
        assert ("\x1b[32m" in run.stdout) is coloured


class TestLesserSurroundings:
    def test_another_user(self) -> None:
        run = run_doctor("--json", user=NOBODY, group=NOBODY, extra_groups=[])
        assert run.returncode == 3
        checks = checks_of(run)
        assert checks["privileges"]["state"] == "missing"
        assert checks["perf events"]["state"] == "unknown"
        assert checks["BTF"]["state"] == "ok"
        for check in checks.values():
            if check["state"] == "unknown":
                assert check["remedy"].startswith("sudo "), check
        first, second = run.stderr.splitlines()
        assert first.startswith("faultprof: sampling does not work here: privileges")
        assert second.strip().startswith("sudo ")

    def test_root_of_a_user_namespace(self) -> None:
        run = run_doctor("--json", under=["unshare", "--user", "--map-root-user"])
        assert run.returncode == 3
        assert "user namespace" in checks_of(run)["privileges"]["found"]

    def test_root_without_capabilities(self) -> None:
        dropped = "--bounding-set=-bpf,-perfmon,-sys_admin"
        run = run_doctor("--json", under=["setpriv", dropped])
        assert run.returncode == 3
        assert checks_of(run)["privileges"]["state"] == "missing"
        assert checks_of(run)["BPF"]["state"] == "unknown"

    def test_a_pid_namespace(self, here: Diagnosis) -> None:
        run = run_doctor("--json", under=["unshare", "--pid", "--fork", "--mount-proc"])
        assert checks_of(run)["pid namespace"]["state"] == "limited"
        assert run.returncode == (0 if here.mode("sample").works else 3)

    @pytest.mark.parametrize("place", ["/proc", "/sys"])
    def test_without_a_file_system(self, place: str) -> None:
        hide = f'mount -t tmpfs none {place} && exec "$@"'
        run = run_doctor("--json", under=["unshare", "--mount", "sh", "-c", hide, "sh"])
        assert run.returncode in (0, 3), run.stderr
        checks = checks_of(run)
        assert "Traceback" not in run.stderr
        hidden = "kernel symbols" if place == "/proc" else "BTF"
        assert checks[hidden]["state"] == "missing"

    def test_without_bcc(self) -> None:
        hiding = "import sys; sys.modules['bcc'] = None; from faultprof.cli import main; main()"
        run = run_doctor("doctor", "--json", python=(sys.executable, "-c", hiding))
        assert run.returncode == 3
        checks = checks_of(run)
        assert checks["bcc"]["state"] == "missing"
        assert checks["BPF"]["state"] == "ok"  # which is tried without bcc
        assert "sampling does not work here: bcc" in run.stderr


def test_require_privileges_is_content() -> None:
    require_privileges()
