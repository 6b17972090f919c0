"""Reading the small text files of /proc, /sys and /etc, any of which may be absent.

Knows: that an unreadable file and an absent one both mean "not told".
Leaves to others: what the files say.

All functions of this layer take ``sysroot``, the folder that stands for ``/``.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

ROOT = Path("/")


def read_text(path: Path) -> str | None:
    """Return a file's text without surrounding white space, or None when it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the number that a file holds, or None when there is none to read."""
    text = read_text(path)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def read_chosen(path: Path) -> str | None:
    """Return the bracketed word of a choice file such as ``always [madvise] never``."""
    chosen = re.search(r"\[(\S+)\]", read_text(path) or "")
    return chosen.group(1) if chosen else None


def read_config(release: str, sysroot: Path = ROOT) -> dict[str, str] | None:
    """Return the kernel's build configuration by option, or None when no copy is to be had.

    Options that are off (``# CONFIG_X is not set``) have the value ``n``.
    """
    for path in (
        sysroot / "proc/config.gz",
        sysroot / f"boot/config-{release}",
        sysroot / f"lib/modules/{release}/config",
    ):
        text = _read_maybe_compressed(path)
        if text is not None:
            return _parse_config(text)
    return None


def read_boot_parameter(name: str, sysroot: Path = ROOT) -> str | None:
    """Return the last value of a kernel command-line parameter; what follows ``--`` is init's."""
    words = (read_text(sysroot / "proc/cmdline") or "").split()
    if "--" in words:
        words = words[: words.index("--")]
    values = [word.partition("=")[2] for word in words if word.partition("=")[0] == name]
    return values[-1] if values else None


def _read_maybe_compressed(path: Path) -> str | None:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
    except (OSError, EOFError):
        return None


def _parse_config(text: str) -> dict[str, str]:
    options = re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE)
    off = re.findall(r"^# (CONFIG_\w+) is not set$", text, re.MULTILINE)
    return {name: value.strip('"') for name, value in options} | dict.fromkeys(off, "n")
