"""The guest is what the other tests take it for: a stock kernel, bcc, and no kernel headers."""

from __future__ import annotations

import platform
from pathlib import Path


def test_the_running_kernel_is_the_wanted_one(kernel: str) -> None:
    release = platform.release()
    print(release)
    assert release.startswith(f"{kernel}.")


def test_bcc_is_there() -> None:
    import bcc

    print(bcc.__version__)
    assert hasattr(bcc, "BPF")


def test_the_kernel_describes_its_types() -> None:
    assert Path("/sys/kernel/btf/vmlinux").stat().st_size > 0


def test_there_are_no_kernel_headers() -> None:
    assert not Path("/lib/modules", platform.release(), "build").exists()
    assert not list(Path("/usr/src").glob("linux-headers*"))
    assert not Path("/sys/kernel/kheaders.tar.xz").exists()


def test_the_fault_path_can_be_probed() -> None:
    functions = Path("/sys/kernel/tracing/available_filter_functions").read_text().split()
    assert "handle_mm_fault" in functions


def test_the_package_comes_from_the_work_tree() -> None:
    import faultprof

    assert Path(faultprof.__file__).parent == Path("/job/src/faultprof")
