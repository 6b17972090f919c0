"""Names for user stacks.

Knows: the records of BPF_F_USER_BUILD_ID, which of a file's tables names its functions, and what
can be missing.
Leaves to others: finding files (user_files), reading them (user_elf), user frames' place in a path
(paths).

Names are as the linker has them: those of C++ and Rust stay mangled. No name holds an address: it
would be another one in each run. Functions of code without a file (vdso, compiled at run time) and
of files that cannot be found are ``[unknown]``.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultprof.capture.sampling import USER_DEPTH
from faultprof.capture.user_elf import BUILD_ID_SIZE, Functions, UserElf
from faultprof.recording.frames import USER, Frame

if TYPE_CHECKING:
    from faultprof.capture.user_files import UserFiles
    from faultprof.recording.ledger import Ledger

UNKNOWN = Frame("[unknown]", resolution=USER)

# struct user_frame of probes/sample.bpf.c.
_RECORD = struct.Struct(f"=i{BUILD_ID_SIZE}sQ")
_STATUS_VALID = 1  # BPF_STACK_BUILD_ID_VALID: the offset is one in the file
_DEBUG_ROOT = Path("/usr/lib/debug/.build-id")
_UNNAMED_SHARE = 0.03
_MANGLED = ("_Z", "_RN", "_RI")


class _Fate(Enum):
    """What became of a frame; the values are the ledger's counters."""

    NAMED = "user_frames_named"
    NO_FUNCTION = "user_frames_without_function"
    NO_FILE = "user_frames_of_unknown_files"
    NO_ADDRESS = "user_frames_outside_of_files"


@dataclass(slots=True)
class _Named:
    """What a record stands for, and in how many samples it was seen."""

    frame: Frame
    fate: _Fate
    samples: int = 0


class _Module:
    """A file's name, its code, and its functions from the best table that there is."""

    def __init__(self, name: str, file: UserElf, debug: UserElf | None) -> None:
        self.name = _printable(name)
        self._files = [file, debug] if debug is not None else [file]
        self._code = file
        self._functions: Functions | None = None
        for source in reversed(self._files):
            self._functions = self._functions or source.functions()

    def name_at(self, offset: int) -> str | None:
        """Return the function at a file offset."""
        # The address comes from the file itself: a debug file's segments are empty.
        address = self._code.address(offset)
        if address is None or self._functions is None:
            return None
        return self._functions.find(address)

    def close(self) -> None:
        for file in self._files:
            file.close()


class UserSymbols:
    """Names user stacks from the files that ``files`` knows (a ``UserResolver`` of paths).

    Args:
        files: asked once for each build id.
        debug_root: the folder of separate debug files, by build id.
    """

    def __init__(self, files: UserFiles, debug_root: Path = _DEBUG_ROOT) -> None:
        self._files = files
        self._debug_root = debug_root
        self._modules: dict[bytes, _Module | None] = {}
        # By record. The same one means another function where it is a return address.
        self._leaves: dict[bytes, _Named] = {}
        self._callers: dict[bytes, _Named] = {}
        self._cut_stacks = 0
        self._mangled = False

    def resolve(self, stack: Any, samples: int = 1) -> tuple[Frame, ...]:
        """Return the frames of a user stack, root first.

        Args:
            stack: array of ``struct user_frame``, leaf first, as in a sample's key.
            samples: how many samples have this stack; what the ledger counts.
        """
        raw = stack.tobytes()
        frames = []
        known = self._leaves
        for at in range(0, len(raw), _RECORD.size):
            record = raw[at : at + _RECORD.size]
            named = known.get(record)
            if named is None:
                named = known[record] = self._name(record, is_return=at > 0)
            named.samples += samples
            frames.append(named.frame)
            known = self._callers
        self._cut_stacks += samples * (len(frames) >= USER_DEPTH)
        frames.reverse()
        return tuple(frames)

    def enter(self, ledger: Ledger) -> None:
        """Enter how many user frames have names (frames, times their samples), and why not."""
        counts = self._counts()
        for fate in _Fate:
            ledger.count(fate.value, counts[fate])
        ledger.count("user_stacks_cut", self._cut_stacks)
        total = counts.total()
        if not total:
            return
        ledger.info(
            "user stacks are followed by frame pointers: in and above code without them, such as "
            "most distributions' libc, callers are missing or wrong"
        )
        if self._mangled:
            ledger.info("names of C++ and Rust functions are left mangled (pipe through c++filt)")
        if self._cut_stacks:
            ledger.degrade(
                f"{self._cut_stacks} samples have user stacks deeper than {USER_DEPTH} frames, "
                f"which lost their callers"
            )
        if total - counts[_Fate.NAMED] > _UNNAMED_SHARE * total:
            ledger.degrade(_unnamed(counts))

    def close(self) -> None:
        """Close the files; safe to repeat."""
        for module in self._modules.values():
            if module is not None:
                module.close()
        self._modules.clear()

    def _counts(self) -> Counter[_Fate]:
        counts: Counter[_Fate] = Counter()
        for named in (*self._leaves.values(), *self._callers.values()):
            counts[named.fate] += named.samples
        return counts

    def _name(self, record: bytes, *, is_return: bool) -> _Named:
        status, build_id, offset = _RECORD.unpack(record)
        if status != _STATUS_VALID:
            return _Named(UNKNOWN, _Fate.NO_ADDRESS)
        if build_id not in self._modules:
            self._modules[build_id] = self._load(build_id)
        module = self._modules[build_id]
        if module is None:
            return _Named(UNKNOWN, _Fate.NO_FILE)
        # A call may be its function's last instruction: the return address is then in the next.
        name = module.name_at(offset - is_return)
        if name is None:
            return _Named(Frame(f"[{module.name}]", module.name, USER), _Fate.NO_FUNCTION)
        self._mangled |= name.startswith(_MANGLED)
        return _Named(Frame(_printable(name), module.name, USER), _Fate.NAMED)

    def _load(self, build_id: bytes) -> _Module | None:
        found = self._files.find(build_id)
        if found is None:
            return None
        digits = build_id.hex()
        debug = UserElf.open(str(self._debug_root / digits[:2] / f"{digits[2:]}.debug"))
        if debug is not None and debug.build_id() != build_id:
            debug.close()
            debug = None
        return _Module(*found, debug)


def _unnamed(counts: Counter[_Fate]) -> str:
    """Say which share of the frames has no name, and for which reasons."""
    total = counts.total()
    reasons = (
        (_Fate.NO_FUNCTION, "in files without symbols there (install their debug files)"),
        (_Fate.NO_FILE, "in files that could not be found"),
        (_Fate.NO_ADDRESS, "outside of files, or wrong for want of frame pointers"),
    )
    parts = [f"{counts[fate] / total:.0%} {words}" for fate, words in reasons if counts[fate]]
    unnamed = total - counts[_Fate.NAMED]
    return f"{unnamed / total:.0%} of the user frames have no name: " + ", ".join(parts)


def _printable(text: str) -> str:
    """Return a name that can be written as UTF-8 and does not steer a terminal."""
    text = text.encode(errors="replace").decode()
    return "".join(char if char.isprintable() else "?" for char in text)
