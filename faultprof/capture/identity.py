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


@dataclass(frozen=True, slots=True)
class Identity:
    """A user: numbers, login name and home directory."""

    uid: int
    gid: int
    name: str
    home: Path

    @property
    def owner(self) -> tuple[int, int]:
        """User and group number, as chown(2) takes them."""
        return self.uid, self.gid

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return ``base`` with the variables that name the user set to this one."""
        return {**base, "HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}

    def become(self) -> None:
        """Take this identity for good; for a child process before exec(2)."""
        os.initgroups(self.name, self.gid)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def invoking_user(environment: Mapping[str, str]) -> Identity | None:
    """Return the user who called sudo, or None when there is no other user than ourselves.

    The variables are believed only from root: anyone can set them, but only root can act on them.
    """
    uid = environment.get("SUDO_UID", "")
    if os.geteuid() != 0 or not uid.isdigit() or int(uid) == 0:
        return None
    try:
        entry = pwd.getpwuid(int(uid))
    except KeyError:
        return None
    return Identity(entry.pw_uid, entry.pw_gid, entry.pw_name, Path(entry.pw_dir))
