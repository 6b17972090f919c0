"""Whose command and whose files: the user behind sudo.

Knows: how sudo names its caller, and how a process becomes that user.
Leaves to others: what runs or is written under the identity.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faultprof.errors import FaultprofError


@dataclass(frozen=True, slots=True)
class Identity:
    """A user: numbers, login name and home directory; ``known``: there is such an account."""

    uid: int
    gid: int
    name: str
    home: Path
    known: bool = True

    @property
    def owner(self) -> tuple[int, int]:
        """User and group number, as chown(2) takes them."""
        return self.uid, self.gid

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return ``base`` with the variables that name the user set to this one."""
        return {**base, "HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}

    def become(self) -> None:
        """Take this identity for good; for a child process before exec(2)."""
        if self.known:
            os.initgroups(self.name, self.gid)
        else:
            os.setgroups([self.gid])
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def invoking_user(environment: Mapping[str, str]) -> Identity | None:
    """Return the user who called sudo, or None when there is no other user than ourselves.

    The variables are believed only from root: anyone can set them, but only root can act on them.

    Raises:
        FaultprofError: SUDO_UID names no user; the command must not silently run as root.
    """
    text = environment.get("SUDO_UID", "")
    if os.geteuid() != 0 or not text:
        return None
    uid = _number(text)
    if uid is None:
        raise FaultprofError(
            f"SUDO_UID is {text!r}, which is no user's number", "unset it, or call sudo again"
        )
    if uid == 0:
        return None
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # as in a container: the number is all there is
        gid = _number(environment.get("SUDO_GID", ""))
        return Identity(uid, uid if gid is None else gid, str(uid), Path("/"), known=False)
    return Identity(entry.pw_uid, entry.pw_gid, entry.pw_name, Path(entry.pw_dir))


def _number(text: str) -> int | None:
    """Return a user's or group's number; None when it is none that the kernel takes."""
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        return None
    number = int(text)
    return number if number < (1 << 32) - 1 else None
