"""The command's exit status, signals, identity and output; and what happens to bad input."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import faultprof
from tests.running import FAULTPROF, counters, record, run, wait_until


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_exit_status_is_the_commands(tmp_path: Path, script: str, status: int) -> None:
    out = tmp_path / "x.fprof"
    assert run("record", "-o", out, "--", "sh", "-c", script).returncode == status
    assert faultprof.load(out).runs[0].exit_status == status


def test_streams_are_the_commands(tmp_path: Path) -> None:
    done = run("record", "-q", "-o", tmp_path / "x.fprof", "--", "cat", input="through")
    assert (done.stdout, done.stderr) == ("through", "")


def test_options_after_the_command_are_the_commands(tmp_path: Path) -> None:
    done = run("record", "-q", "-o", tmp_path / "x.fprof", "sh", "-c", "echo $0 $1", "-F", "-a")
    assert done.stdout == "-F -a\n"


REFUSED = {
    "not found": (["--", "no-such-command"], 127, "command not found: no-such-command"),
    "not executable": (["--", "/etc/passwd"], 126, "cannot run /etc/passwd"),
    "a directory": (["--", "/etc"], 126, "cannot run /etc"),
    "frequency 0": (["-F", "0", "--", "true"], 2, "0 Hz"),
    "frequency negative": (["-F", "-5", "--", "true"], 2, "-5 Hz"),
    "frequency too high": (["-F", "99999999", "--", "true"], 2, "limit of"),
    "frequency no number": (["-F", "often", "--", "true"], 2, "'-F'"),
    "empty name": (["--", ""], 127, "command not found"),
    "pid beyond all": (["-p", "99999999999"], 2, "there is no process 99999999999"),
    "no stacks": (["--max-stacks", "0", "--", "true"], 2, "0 stacks"),
    "pid gone": (["-p", "4194303"], 2, "there is no process 4194303"),
    "pid negative": (["-p", "-3"], 2, "-3"),
    "pid and command": (["-p", "1", "--", "true"], 2, "-p PID"),
    "nothing": ([], 2, "nothing to record"),
    "duration 0": (["--duration", "0", "--", "true"], 2, "duration of 0"),
    "duration nan": (["--duration", "nan", "--", "true"], 2, "duration of nan"),
    "unknown option": (["--frobnicate", "--", "true"], 2, "--frobnicate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line_with_a_remedy(tmp_path: Path, case: str) -> None:
    arguments, status, message = REFUSED[case]
    out = tmp_path / "x.fprof"
    done = run("record", "-o", out, *arguments)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_output_directory_missing_is_said_before_the_command_runs(tmp_path: Path) -> None:
    done = run("record", "-o", tmp_path / "no" / "x.fprof", "--", "touch", tmp_path / "ran")
    assert done.returncode == 2
    assert "-o" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_without_root_the_command_to_run_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = run(
        "record", "-o", tmp_path / "x.fprof", "--", "true", user="nobody", cwd="/", env=_bare()
    )
    assert done.returncode == 3
    assert "sudo" in done.stderr
    assert "Traceback" not in done.stderr


def _bare() -> dict[str, str]:
    # An editable install is found by its path only where the user may look there.
    return {**os.environ, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}


def test_default_name_keeps_the_former_recording(tmp_path: Path) -> None:
    for status in (3, 4):
        run("record", "--", "sh", "-c", f"exit {status}", cwd=tmp_path)
    old, new = (tmp_path / name for name in ("faultprof.fprof.old", "faultprof.fprof"))
    assert [faultprof.load(file).runs[0].exit_status for file in (old, new)] == [3, 4]
    assert new.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_recording_and_still_writes_it(tmp_path: Path, number: int) -> None:
    out = tmp_path / "x.fprof"
    process = subprocess.Popen([*FAULTPROF, "record", "-o", out, "--", "sleep", "100"])
    _wait_for_child(process.pid, "sleep")
    process.send_signal(number)
    # Sent to us alone, it was passed on; its status is the command's.
    assert process.wait(20) == 128 + number
    assert faultprof.load(out).runs[0].exit_status == 128 + number


def test_a_command_that_ignores_the_signal_delays_nothing_but_the_prompt(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    stubborn = "trap '' INT; exec sleep 100"
    process = subprocess.Popen([*FAULTPROF, "record", "-o", out, "--", "sh", "-c", stubborn])
    child = _wait_for_child(process.pid, "sleep")
    process.send_signal(signal.SIGINT)
    wait_until(out.exists)
    assert faultprof.load(out).runs[0].exit_status is None
    assert process.poll() is None
    os.kill(child, signal.SIGKILL)
    assert process.wait(20) == 137


def test_kill_9_leaves_nothing_behind(tmp_path: Path) -> None:
    before = _programs()
    process = subprocess.Popen(
        [*FAULTPROF, "record", "-o", tmp_path / "x.fprof", "--", "sleep", "100"]
    )
    child = _wait_for_child(process.pid, "sleep")
    assert _programs() != before
    process.kill()
    process.wait()
    os.kill(child, signal.SIGKILL)
    assert not list(tmp_path.iterdir())
    wait_until(lambda: _programs() == before)


def test_two_recordings_at_the_same_time(tmp_path: Path) -> None:
    outs = [tmp_path / "a.fprof", tmp_path / "b.fprof"]
    both = [
        subprocess.Popen([*FAULTPROF, "record", "-o", out, "--", "usemem", "128m"]) for out in outs
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    for out in outs:
        assert counters(out)["samples"] > 0


def test_a_running_process_and_its_children(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    loop = (
        "import os\nwhile True:\n if os.fork() == 0: os._exit(sum(range(100000)) % 2)\n os.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", loop]) as target:
        done = run("record", "-p", str(target.pid), "--duration", "1", "-o", out)
        target.kill()
    assert done.returncode == 0
    info = faultprof.load(out)
    assert info.metadata.command == ()
    assert info.runs[0].exit_status is None
    # However busy the machine is: what ran was sampled, its children included.
    assert info.runs[0].on_cpu_s > 0.05
    assert counters(out)["samples"] > 0.8 * 999 * info.runs[0].on_cpu_s


def test_the_end_of_a_watched_process_ends_the_recording(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as target:
        arguments = ["record", "-p", str(target.pid), "-o", tmp_path / "x.fprof"]
        with subprocess.Popen([*FAULTPROF, *map(str, arguments)]) as process:
            # One event for the target's clock, then one for each CPU's timer.
            wait_until(lambda: _events(process.pid) > len(os.sched_getaffinity(0)))
            time.sleep(0.5)
            target.kill()
            assert process.wait(30) == 0


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.4])
def test_a_signal_while_the_recording_is_written_does_not_lose_it(
    tmp_path: Path, delay: float
) -> None:
    """It is blocked in every thread: numpy's libraries start some."""
    out, end = tmp_path / "x.fprof", tmp_path / "end"
    script = f"sleep 0.3; touch {end}"
    process = subprocess.Popen([*FAULTPROF, "record", "-o", out, "--", "sh", "-c", script])
    wait_until(end.exists)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert faultprof.load(out).runs[0].index == 0


def test_signals_escalate_for_a_command_that_ignores_them(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    stubborn = "trap '' INT TERM; while :; do sleep 0.1; done"
    process = subprocess.Popen([*FAULTPROF, "record", "-o", out, "--", "sh", "-c", stubborn])
    _wait_for_child(process.pid, "sh")
    for _ in range(4):
        process.send_signal(signal.SIGINT)
        time.sleep(1.5)
    assert process.wait(30) == 137
    assert out.exists()


@pytest.mark.parametrize("what", ["device", "pipe", "text"])
def test_what_is_no_recording_is_not_replaced(tmp_path: Path, what: str) -> None:
    out = tmp_path / "x.fprof"
    if what == "device":
        os.mknod(out, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    elif what == "pipe":
        os.mkfifo(out)
    else:
        out.write_text("precious")
    before = out.lstat()
    done = run("record", "-o", out, "--", "touch", tmp_path / "ran")
    assert done.returncode == 2
    assert out.lstat().st_ino == before.st_ino
    assert not (tmp_path / "ran").exists()


def test_closed_streams_do_not_matter(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    command = " ".join([*FAULTPROF, "record", "-q", "-o", str(out), "--", "true"])
    assert subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"]).returncode == 0
    assert faultprof.load(out).runs[0].exit_status == 0


@pytest.mark.parametrize("uid", ["²", "abc", "-1", "4294967295", "99999999999999999999"])
def test_a_sudo_uid_that_names_nobody_is_refused(tmp_path: Path, uid: str) -> None:
    done = run(
        "record", "-o", tmp_path / "x.fprof", "--", "id", env={**os.environ, "SUDO_UID": uid}
    )
    assert done.returncode == 2
    assert "SUDO_UID" in done.stderr


def test_a_user_without_an_account_is_one_all_the_same(tmp_path: Path) -> None:
    sudo = {"SUDO_UID": "54321", "SUDO_GID": "54322"}
    tmp_path.chmod(0o777)
    done = record(tmp_path / "x.fprof", "-q", "--", "id", env={**os.environ, **sudo, "LC_ALL": "C"})
    assert done.stdout.split()[:2] == ["uid=54321", "gid=54322"]


def test_everything_for_a_while(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        record(out, "-a", "--duration", "1")
        busy.kill()
    assert counters(out)["samples"] > 800


def test_duration_ends_the_recording_but_not_the_command(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    done = record(out, "--duration", "0.5", "--", "sh", "-c", "sleep 2; echo end")
    assert done.stdout == "end\n"
    assert faultprof.load(out).runs[0].wall_s < 1.5


def test_under_sudo_command_and_file_are_the_users(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    tmp_path.chmod(0o777)
    out = tmp_path / "x.fprof"
    sudo = {"SUDO_UID": str(nobody.pw_uid), "SUDO_GID": str(nobody.pw_gid), "SUDO_USER": "nobody"}
    script = "id -u; echo $HOME $USER; touch mine; trap - PIPE; grep SigIgn /proc/self/status"
    done = record(out, "-q", "--", "sh", "-c", script, cwd=tmp_path, env={**os.environ, **sudo})
    uid, who, ignored = done.stdout.splitlines()
    assert (uid, who) == (str(nobody.pw_uid), f"{nobody.pw_dir} nobody")
    assert int(ignored.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0
    assert (tmp_path / "mine").stat().st_uid == nobody.pw_uid
    assert out.stat().st_uid == nobody.pw_uid
    as_root = record(out, "-q", "--as-root", "--", "id", "-u", env={**os.environ, **sudo})
    assert as_root.stdout == "0\n"


def test_the_command_inherits_no_file_of_ours(tmp_path: Path) -> None:
    done = record(tmp_path / "x.fprof", "-q", "--", "ls", "/proc/self/fd")
    assert {int(fd) for fd in done.stdout.split()} <= {0, 1, 2, 3}


def test_the_command_has_the_environment_that_we_were_given(tmp_path: Path) -> None:
    given = {**os.environ, "A": "b\nc"}
    done = run("record", "-q", "-o", tmp_path / "x.fprof", "--", "env", "-0", env=given)
    assert set(done.stdout.split("\0")) - {""} == {
        f"{name}={value}" for name, value in given.items()
    }


def test_we_take_no_cpu_while_the_command_runs(tmp_path: Path) -> None:
    """Neither do threads of libraries: OpenBLAS's took 50 ms of another CPU at the start."""
    time_of_all = "cat /proc/$PPID/task/*/schedstat"
    script = f"{time_of_all}; echo; sleep 0.3; {time_of_all}"
    done = run("record", "-q", "-o", tmp_path / "x.fprof", "--", "sh", "-c", script)
    before, after = (
        sum(int(line.split()[0]) for line in part.splitlines())
        for part in done.stdout.split("\n\n")
    )
    print(f"{(after - before) / 1e6:.1f} ms")
    assert 0 <= after - before < 10e6


def test_nothing_is_attached_after_any_of_it() -> None:
    assert not [line for line in _programs() if "name on_sample" in line]


def _events(pid: int) -> int:
    """Return how many perf events a process has open."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += "perf_event" in str(entry.readlink())
    return count


def _programs() -> list[str]:
    listed = subprocess.run(["bpftool", "prog"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "name on_" in line]


def _wait_for_child(pid: int, name: str) -> int:
    """Wait until a descendant called ``name`` runs and return its pid."""
    found: list[int] = []

    def look() -> bool:
        listed = subprocess.run(
            ["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True
        ).stdout
        found[:] = [int(line.split()[0]) for line in listed.splitlines() if line.endswith(name)]
        return bool(found)

    wait_until(look)
    time.sleep(0.2)  # past its exec
    return found[0]


def test_auto_says_what_it_does(tmp_path: Path) -> None:
    """Which of the two depends on the machine; a trace has the sampler beside it."""
    out = tmp_path / "x.fprof"
    done = run("record", "-o", out, "--", "true")
    assert done.returncode == 0
    said, mode = done.stderr.splitlines()[0], faultprof.load(out).metadata.mode
    says = {"sample": "faultprof: sampling only, not tracing: ", "trace": "faultprof: tracing "}
    assert said.startswith(says[mode])
    assert len(done.stderr.splitlines()) == 2
