"""What files tell of a machine, on small trees that stand for machines hard to come by."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faultprof.errors import FaultprofError
from faultprof.kernel.checks import Check
from faultprof.kernel.features import debuginfo_check, file_checks
from faultprof.kernel.files import read_boot_parameter, read_config
from faultprof.kernel.host import Host, as_root, read_host
from faultprof.kernel.hugepages import (
    hugetlb_check,
    init_on_alloc,
    init_on_alloc_check,
    transparent_hugepage_check,
)
from faultprof.kernel.privileges import (
    kernel_symbols_check,
    lockdown_level,
    pid_namespace_check,
    privileges_check,
    read_privileges,
    require_privileges,
)
from faultprof.kernel.tracefs import TRACEPOINT_GROUPS, is_listed, tracefs_check
from tests.machine_tree import (
    INITIAL_USER_NAMESPACE,
    ROOT_STATUS,
    USER_STATUS,
    build_machine,
    stock_machine,
)

RELEASE = "6.1.0-37-amd64"


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    return stock_machine(tmp_path)


def rewrite(root: Path, name: str, content: str) -> None:
    (root / name).unlink(missing_ok=True)
    build_machine(root, {name: content})


class TestFiles:
    def test_config_from_proc_wins_over_boot(self, stock: Path) -> None:
        build_machine(
            stock, {"proc/config.gz": 'CONFIG_A=m\n# CONFIG_B is not set\nCONFIG_C="x"\n'}
        )
        assert read_config(RELEASE, stock) == {"CONFIG_A": "m", "CONFIG_B": "n", "CONFIG_C": "x"}

    def test_a_damaged_copy_of_the_config_is_passed_over(self, stock: Path) -> None:
        (stock / "proc/config.gz").write_bytes(b"\x1f\x8b\x08\x00garbage")
        assert read_config(RELEASE, stock) is not None

    def test_no_config_at_all(self, tmp_path: Path) -> None:
        assert read_config(RELEASE, tmp_path) is None

    @pytest.mark.parametrize(
        ("line", "value"),
        [
            ("quiet a=1", "1"),
            ("a=1 a=0", "0"),  # the kernel takes the last
            ("a=1 -- a=0", "1"),  # what follows is init's
            ("quiet aa=1", None),
            ("a", ""),
        ],
    )
    def test_boot_parameter(self, tmp_path: Path, line: str, value: str | None) -> None:
        build_machine(tmp_path, {"proc/cmdline": line + "\n"})
        assert read_boot_parameter("a", tmp_path) == value


class TestHost:
    @pytest.mark.parametrize(
        ("os_release", "release", "bcc", "debuginfo"),
        [
            (
                "ID=debian",
                RELEASE,
                "sudo apt install python3-bpfcc",
                f"sudo apt install linux-image-{RELEASE}-dbg",
            ),
            (
                "ID=debian",
                "6.12.30+deb13-cloud-arm64",
                "sudo apt install python3-bpfcc",
                "sudo apt install linux-image-6.12.30+deb13-cloud-arm64-dbg",
            ),
            (
                "ID=linuxmint\nID_LIKE=ubuntu",
                "6.8.0-60-generic",
                "sudo apt install python3-bpfcc",
                "sudo apt install linux-image-6.8.0-60-generic-dbgsym "
                "(from Ubuntu's archive of debug symbols)",
            ),
            (
                "ID=fedora",
                "6.14.5-300.fc42.x86_64",
                "sudo dnf install python3-bcc",
                "sudo dnf debuginfo-install kernel-6.14.5-300.fc42.x86_64",
            ),
            (
                'ID="rocky"\nID_LIKE="rhel centos fedora"',
                "5.14.0-503.el9.x86_64",
                "sudo dnf install python3-bcc",
                "sudo dnf debuginfo-install kernel-5.14.0-503.el9.x86_64",
            ),
            (
                "ID=arch",
                "6.14.5-arch1-1",
                "install bcc's Python package (python3-bcc)",
                "point FAULTPROF_VMLINUX at the vmlinux of this kernel's build",
            ),
            (
                # No package of the distribution's belongs to a kernel that it did not build.
                "ID=debian",
                "6.16.0-rc3+",
                "sudo apt install python3-bpfcc",
                "point FAULTPROF_VMLINUX at the vmlinux of this kernel's build",
            ),
        ],
    )
    def test_remedies_follow_the_distribution(
        self, tmp_path: Path, os_release: str, release: str, bcc: str, debuginfo: str
    ) -> None:
        build_machine(
            tmp_path, {"etc/os-release": os_release, "proc/sys/kernel/osrelease": release}
        )
        host = read_host(tmp_path)
        assert (host.release, host.install_bcc, host.install_debuginfo) == (release, bcc, debuginfo)

    def test_without_any_file(self, tmp_path: Path) -> None:
        host = read_host(tmp_path)
        assert host.family == "other"
        assert host.distribution == "an unnamed distribution"

    @pytest.mark.parametrize(
        ("program", "command"),
        [
            ("/usr/bin/faultprof", "sudo faultprof record -- 'a b'"),
            ("/home/me/.venv/bin/faultprof", "sudo /home/me/.venv/bin/faultprof record -- 'a b'"),
            ("/usr/lib/python3/pytest/__main__.py", "sudo faultprof record -- 'a b'"),
        ],
    )
    def test_the_same_call_as_root(
        self, monkeypatch: pytest.MonkeyPatch, program: str, command: str
    ) -> None:
        monkeypatch.setattr(sys, "argv", [program, "record", "--", "a b"])
        assert as_root() == command


class TestPrivileges:
    def test_root(self, stock: Path) -> None:
        check = privileges_check(stock)
        assert check.state == "ok"
        assert check.found == (
            "root, CAP_BPF, CAP_PERFMON, CAP_SYSLOG, CAP_SYS_ADMIN; "
            "perf_event_paranoid 3, unprivileged_bpf_disabled 2"
        )
        require_privileges(["record"], stock)

    def test_another_user_is_told_the_command(self, stock: Path) -> None:
        rewrite(stock, "proc/self/status", USER_STATUS)
        assert privileges_check(stock).remedy == "sudo faultprof doctor"
        with pytest.raises(FaultprofError) as raised:
            require_privileges(["record", "--", "usemem", "1g"], stock)
        assert raised.value.exit_code == 3
        assert raised.value.hint == "run: sudo faultprof record -- usemem 1g"

    @pytest.mark.parametrize(
        ("bits", "suffice"),
        [
            ((38, 39), True),  # CAP_PERFMON, CAP_BPF
            ((21,), True),  # CAP_SYS_ADMIN holds both
            ((39,), False),
            ((38,), False),
            ((34,), False),
        ],
    )
    def test_capabilities_of_a_user(
        self, stock: Path, bits: tuple[int, ...], suffice: bool
    ) -> None:
        mask = sum(1 << bit for bit in bits)
        rewrite(stock, "proc/self/status", f"Uid:\t7\t1000\t7\t7\nCapEff:\t{mask:016x}\n")
        privileges = read_privileges(stock)
        assert privileges.user_id == 1000
        assert privileges.suffice is suffice

    def test_root_of_a_user_namespace_is_not_root(self, stock: Path) -> None:
        rewrite(stock, "proc/self/ns/user", "user:[4026532444]")
        check = privileges_check(stock)
        assert check.state == "missing"
        assert "user namespace" in check.found
        with pytest.raises(FaultprofError, match="user namespace"):
            require_privileges(["record"], stock)

    def test_root_without_capabilities(self, stock: Path) -> None:
        rewrite(stock, "proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n")
        check = privileges_check(stock)
        assert check.state == "missing"
        assert check.found.endswith("CAP_BPF and CAP_PERFMON are dropped")
        assert "sudo" not in check.remedy

    @pytest.mark.parametrize(
        ("link", "state"),
        [("pid:[4026531836]", "ok"), ("pid:[4026532718]", "limited"), (None, "unknown")],
    )
    def test_pid_namespace(self, stock: Path, link: str | None, state: str) -> None:
        (stock / "proc/self/ns/pid").unlink()
        if link:
            build_machine(stock, {"proc/self/ns/pid": link})
        assert pid_namespace_check(stock).state == state


class TestKernelSymbols:
    def test_a_first_symbol_at_zero_does_not_mislead(self, stock: Path) -> None:
        assert kernel_symbols_check(stock).state == "ok"

    @pytest.mark.parametrize(
        ("restrict", "remedy"),
        [("2", "sudo sysctl kernel.kptr_restrict=1"), ("1", "sudo faultprof doctor")],
    )
    def test_hidden(self, stock: Path, restrict: str, remedy: str) -> None:
        rewrite(stock, "proc/kallsyms", "0000000000000000 T _stext\n0000000000000000 T _text\n")
        rewrite(stock, "proc/sys/kernel/kptr_restrict", restrict)
        check = kernel_symbols_check(stock)
        assert check.state == "missing"
        assert check.remedy == remedy

    @pytest.mark.parametrize("content", [None, ""])
    def test_not_there(self, stock: Path, content: str | None) -> None:
        (stock / "proc/kallsyms").unlink()
        if content is not None:
            build_machine(stock, {"proc/kallsyms": content})
        assert kernel_symbols_check(stock).state == "missing"


class TestLockdown:
    def test_securityfs_tells(self, stock: Path) -> None:
        rewrite(stock, "sys/kernel/security/lockdown", "none integrity [confidentiality]\n")
        assert lockdown_level(RELEASE, stock) == ("confidentiality", "securityfs")

    @pytest.mark.parametrize(
        ("config", "command_line", "level"),
        [
            ("CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y", "", "integrity"),
            ("CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y", "lockdown=confidentiality", None),
            ("CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y", "lockdown=integrity", None),
            ("CONFIG_LOCK_DOWN_KERNEL_FORCE_NONE=y", "lockdown=nonsense", "none"),
        ],
    )
    def test_the_stricter_of_build_and_command_line(
        self, stock: Path, config: str, command_line: str, level: str | None
    ) -> None:
        (stock / "sys/kernel/security/lockdown").unlink()
        rewrite(stock, f"boot/config-{RELEASE}", f"CONFIG_SECURITY_LOCKDOWN_LSM=y\n{config}\n")
        rewrite(stock, "proc/cmdline", command_line)
        known = lockdown_level(RELEASE, stock)
        assert known is not None
        assert known[0] == (level or "confidentiality")

    def test_not_built_in(self, stock: Path) -> None:
        (stock / "sys/kernel/security/lockdown").unlink()
        rewrite(stock, f"boot/config-{RELEASE}", "# CONFIG_SECURITY_LOCKDOWN_LSM is not set\n")
        assert lockdown_level(RELEASE, stock) == ("none", "not built in")

    def test_nothing_tells(self, tmp_path: Path) -> None:
        assert lockdown_level(RELEASE, tmp_path) is None


class TestInitOnAlloc:
    @pytest.mark.parametrize(
        ("command_line", "default", "on"),
        [
            ("", "y", True),
            ("", "n", False),
            ("init_on_alloc=0", "y", False),
            ("init_on_alloc=1", "n", True),
            ("init_on_alloc=on init_on_alloc=off", "y", False),
            ("init_on_alloc=maybe", "y", True),  # the kernel ignores what it cannot read
            ("init_on_alloc=no quiet", "y", False),
        ],
    )
    def test_command_line_over_default(
        self, stock: Path, command_line: str, default: str, on: bool
    ) -> None:
        option = "CONFIG_INIT_ON_ALLOC_DEFAULT_ON"
        line = f"{option}=y\n" if default == "y" else f"# {option} is not set\n"
        rewrite(stock, f"boot/config-{RELEASE}", line)
        rewrite(stock, "proc/cmdline", command_line)
        setting = init_on_alloc(RELEASE, stock)
        assert setting is not None
        assert setting[0] is on

    def test_unknown_without_config(self, stock: Path) -> None:
        (stock / f"boot/config-{RELEASE}").unlink()
        check = init_on_alloc_check(RELEASE, stock)
        assert check.state == "unknown"
        assert check.cost.startswith("if on: ")

    def test_known_without_config_when_asked_for(self, stock: Path) -> None:
        (stock / f"boot/config-{RELEASE}").unlink()
        rewrite(stock, "proc/cmdline", "init_on_alloc=1")
        check = init_on_alloc_check(RELEASE, stock)
        assert (check.state, check.found) == ("limited", "on (kernel command line)")


class TestHugePages:
    def thp(self, stock: Path, enabled: str, sizes: dict[str, str]) -> Check:
        place = "sys/kernel/mm/transparent_hugepage"
        rewrite(stock, f"{place}/enabled", enabled)
        build_machine(stock, {f"{place}/hugepages-{s}/enabled": v for s, v in sizes.items()})
        return transparent_hugepage_check(stock)

    def test_one_switch_for_all(self, stock: Path) -> None:
        check = self.thp(stock, "[always] madvise never", {})
        assert check.state == "ok"
        assert check.found == (
            "enabled always, defrag madvise, shmem_enabled never; no multi-size pages"
        )

    def test_never(self, stock: Path) -> None:
        check = self.thp(stock, "always madvise [never]", {})
        assert check.state == "limited"
        assert check.remedy == (
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
        )

    def test_sizes_in_order_with_inheritance(self, stock: Path) -> None:
        own = "always inherit madvise never"
        check = self.thp(
            stock,
            "always [madvise] never",
            {
                "2048kB": own.replace("inherit", "[inherit]"),
                "64kB": own.replace("always", "[always]"),
                "16kB": own.replace("never", "[never]"),
            },
        )
        assert check.state == "ok"
        assert check.found.endswith("sizes on: 64 kB, 2 MB (of 3)")

    def test_every_size_off_though_enabled(self, stock: Path) -> None:
        check = self.thp(
            stock, "[always] madvise never", {"2048kB": "always inherit madvise [never]"}
        )
        assert check.state == "limited"

    def test_not_built_in(self, tmp_path: Path) -> None:
        assert transparent_hugepage_check(tmp_path).state == "missing"

    def test_hugetlb_pool(self, stock: Path) -> None:
        check = hugetlb_check(stock)
        assert (check.state, check.found) == ("ok", "2 MB: 60 of 64 free, overcommit 0")

    def test_hugetlb_without_pages(self, stock: Path) -> None:
        rewrite(stock, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0")
        check = hugetlb_check(stock)
        assert check.state == "limited"
        assert check.remedy == "sudo sysctl vm.nr_overcommit_hugepages=512"

    def test_hugetlb_overcommit_is_enough(self, stock: Path) -> None:
        rewrite(stock, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0")
        rewrite(stock, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "9")
        assert hugetlb_check(stock).state == "ok"


class TestTracefs:
    def test_mounted(self, stock: Path) -> None:
        assert tracefs_check(stock) == Check("tracefs", "ok", "/sys/kernel/tracing")

    def test_below_debugfs(self, stock: Path) -> None:
        (stock / "sys/kernel/tracing").rename(stock / "sys/kernel/moved")
        build_machine(stock, {"sys/kernel/debug/tracing/events/enable": "0"})
        assert tracefs_check(stock).found == "/sys/kernel/debug/tracing"

    def test_not_mounted_is_left_to_the_user(self, stock: Path) -> None:
        (stock / "sys/kernel/tracing").rename(stock / "sys/kernel/moved")
        check = tracefs_check(stock)
        assert check.state == "limited"
        assert check.remedy == "sudo mount -t tracefs tracefs /sys/kernel/tracing"

    def test_mounted_but_empty(self, stock: Path) -> None:
        (stock / "sys/kernel/tracing").rename(stock / "sys/kernel/moved")
        build_machine(stock, {"proc/mounts": "none /sys/kernel/tracing tracefs rw 0 0\n"})
        check = tracefs_check(stock)
        assert check.state == "missing"  # root sees nothing either: locked down
        assert check.remedy.startswith("boot with lockdown=")
        rewrite(stock, "proc/self/status", USER_STATUS)
        assert tracefs_check(stock).remedy == "sudo faultprof doctor"

    def test_not_built_in(self, stock: Path) -> None:
        (stock / "sys/kernel/tracing").rename(stock / "sys/kernel/moved")
        rewrite(stock, "proc/filesystems", "nodev\tsysfs\n")
        assert tracefs_check(stock).state == "missing"

    def test_listed(self, stock: Path) -> None:
        faults = TRACEPOINT_GROUPS[0]
        assert is_listed(faults, "page_fault_user", stock) is True
        (stock / "sys/kernel/tracing/events/exceptions/page_fault_kernel").rename(stock / "gone")
        assert is_listed(faults, "page_fault_kernel", stock) is False
        (stock / "sys/kernel/tracing").rename(stock / "sys/kernel/moved")
        assert is_listed(faults, "page_fault_user", stock) is None


class TestDebuginfo:
    HOST = Host(RELEASE, "x86_64", "Debian GNU/Linux 12 (bookworm)", "debian")

    def test_without_sysfs(self, tmp_path: Path) -> None:
        assert debuginfo_check(self.HOST, tmp_path, {}).state == "unknown"


def test_a_stock_machine_in_all(stock: Path) -> None:
    checks = {check.name: check.state for check in file_checks(read_host(stock), stock)}
    assert checks == {
        "privileges": "ok",
        "BTF": "missing",
        "kernel symbols": "ok",
        "debuginfo": "unknown",
        "tracefs": "ok",
        "huge pages (THP)": "ok",
        "hugetlb": "ok",
        "init_on_alloc": "limited",
        "pid namespace": "ok",
    }


def test_an_empty_machine_raises_nothing(tmp_path: Path) -> None:
    states = {check.name: check.state for check in file_checks(read_host(tmp_path), tmp_path)}
    assert set(states.values()) <= {"ok", "missing", "unknown", "limited"}
    assert states["kernel symbols"] == "missing"
    assert states["pid namespace"] == "unknown"
    assert states["init_on_alloc"] == "unknown"


def test_whatever_is_not_well_says_what_it_costs_and_what_to_do(tmp_path: Path) -> None:
    build_machine(
        tmp_path,
        {
            "proc/self/status": USER_STATUS,
            "proc/self/ns/pid": "pid:[1]",
            "proc/self/ns/user": INITIAL_USER_NAMESPACE,
        },
    )
    for check in file_checks(read_host(tmp_path), tmp_path):
        assert check.state == "ok" or (check.cost or check.state == "unknown"), check
        assert check.state == "ok" or check.remedy, check


def test_root_status_is_what_the_fixtures_say(stock: Path) -> None:
    assert (stock / "proc/self/status").read_text() == ROOT_STATUS
