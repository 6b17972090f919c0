"""A folder that stands for the root of some machine: its /proc, /sys, /etc, as far as given."""

from __future__ import annotations

import gzip
from pathlib import Path

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
INITIAL_USER_NAMESPACE = "user:[4026531837]"

ROOT_STATUS = "Name:\tpython3\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"
USER_STATUS = "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"

TRACEPOINTS = (
    "exceptions/page_fault_user",
    "exceptions/page_fault_kernel",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_free",
    "sched/sched_switch",
    "lock/contention_begin",
    "lock/contention_end",
)


def build_machine(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write ``files`` below ``root`` by path and return it.

    A name that ends in ``.gz`` is compressed; one with ``/ns/`` in it becomes a link, as there.
    """
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if "/ns/" in name:
            path.symlink_to(str(content))
            continue
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return root


def stock_machine(root: Path) -> Path:
    """Return a machine like a stock Debian 12 under root, all of it readable."""
    return build_machine(
        root,
        {
            "etc/os-release": (
                'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
            ),
            "proc/sys/kernel/osrelease": "6.1.0-37-amd64\n",
            "proc/sys/kernel/arch": "x86_64\n",
            "proc/sys/kernel/perf_event_paranoid": "3\n",
            "proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
            "proc/sys/kernel/kptr_restrict": "0\n",
            "proc/sys/kernel/perf_event_max_sample_rate": "100000\n",
            "proc/self/status": ROOT_STATUS,
            "proc/self/ns/pid": INITIAL_PID_NAMESPACE,
            "proc/self/ns/user": INITIAL_USER_NAMESPACE,
            "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.1.0-37-amd64 root=/dev/vda1 ro quiet\n",
            "proc/filesystems": "nodev\tsysfs\nnodev\ttracefs\n\text4\n",
            "proc/kallsyms": ("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n"),
            "boot/config-6.1.0-37-amd64": (
                "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\nCONFIG_SECURITY_LOCKDOWN_LSM=y\n"
                "CONFIG_LOCK_DOWN_KERNEL_FORCE_NONE=y\n# CONFIG_SLUB_TINY is not set\n"
            ),
            "sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
            **{f"sys/kernel/tracing/events/{name}/id": "1\n" for name in TRACEPOINTS},
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
            "sys/kernel/mm/transparent_hugepage/defrag": (
                "always defer defer+madvise [madvise] never\n"
            ),
            "sys/kernel/mm/transparent_hugepage/shmem_enabled": (
                "always within_size advise [never] deny force\n"
            ),
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "64\n",
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "60\n",
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages": "0\n",
        },
    )
