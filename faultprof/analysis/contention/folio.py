"""Waits for folios: in which function, for what, on which page of which file; and wake-ups.

Knows: what the part ``folio`` of a run holds, and how runs add up.
Leaves to others: counting (``capture.contention.folio``), showing (``render.contention.folio``).

A run's part has, as the object under ``folio`` in JSON has,

- ``waits``: by ``function``, its ``caller`` and ``aim``, how many tasks slept until a bit of a
  folio was cleared (``waits``), and for how long (``ns`` in all, of which ``off_cpu_ns`` not
  running; ``max_ns``, ``histogram``; in JSON ``mean_ns`` too). The aim is ``lock`` (to have the
  lock), ``unlocked`` (only that nobody has it), ``writeback`` (its end) or ``other``. A wait is the
  function's from its entry on; where the function is "", the compiler has put it into its caller
  (as ``filemap_fault`` waits without ``__folio_lock``), and the wait counts from the moment at
  which the task first goes to sleep. The caller is "" where it is not known. ``given_up``: ended by
  a signal instead.
- ``calls``: of each of these functions, how many ``calls``, and how many of them ended
  ``without_sleep``.
- ``files``: waits by file and aim: ``kind`` (``file``, ``anonymous``, or ``none``: in no file any
  more), ``device`` (major:minor), ``inode``; ``path``, where one was found that leads to just this
  inode, else null; ``name``, what its own file system calls it. A file of an overlay is that of the
  layer which has it.
- ``pages``: the same by page: ``index``, its offset in the file in pages; of a large folio, the
  offset of its first page, and how many ``pages`` it has.
- ``wakes``: by aim, calls of ``folio_wake_bit`` by recorded tasks (``wakes``), how long they took,
  how many waiters they have ``let_go``, and how many wakes found ``nobody`` to let go (null: not
  known here). A waiter is let go also if it has yet to fall asleep.
- ``wakes_in_interrupts``: those by interrupts of recorded tasks, which are nowhere else.
- ``unseen``: why functions could not be probed; ``open``: tasks inside when the run ended;
  ``lost``: what could not be counted, by reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from faultprof.analysis.histogram import added, quantile_ns
from faultprof.recording.histogram import Histogram, bucket_lower_ns, bucket_of

LOCK, UNLOCKED, WRITEBACK, OTHER = "lock", "unlocked", "writeback", "other"
NO_FILE = {"anonymous": "anonymous memory", "none": "no file any more"}
INLINED = ""  # the function of waits that began in none that is probed


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits in one function for one caller with one aim; times in ns."""

    function: str
    caller: str
    aim: str
    count: int
    given_up: int
    ns: int
    off_cpu_ns: int
    max_ns: int
    histogram: Histogram

    @property
    def key(self) -> Hashable:
        """What waits have in common that are added up."""
        return self.function, self.caller, self.aim

    @property
    def mean_ns(self) -> float:
        """What one takes in the mean."""
        return self.ns / self.count

    def quantile_ns(self, quantile: float) -> int:
        """Return what a share of them does not exceed."""
        return _quantile(self.histogram, quantile, self.max_ns)

    def plus(self, other: Waits) -> Waits:
        """Return both together."""
        return replace(
            self,
            count=self.count + other.count,
            given_up=self.given_up + other.given_up,
            ns=self.ns + other.ns,
            off_cpu_ns=self.off_cpu_ns + other.off_cpu_ns,
            max_ns=max(self.max_ns, other.max_ns),
            histogram=added((self.histogram, other.histogram)),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Waits:
        """Rebuild from one element of ``waits``."""
        return cls(
            str(data["function"]),
            str(data["caller"]),
            str(data["aim"]),
            int(data["waits"]),
            int(data["given_up"]),
            int(data["ns"]),
            int(data["off_cpu_ns"]),
            int(data["max_ns"]),
            _histogram(data["histogram"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data; the mean beside what a run has."""
        return {
            "function": self.function,
            "caller": self.caller,
            "aim": self.aim,
            "waits": self.count,
            "given_up": self.given_up,
            "ns": self.ns,
            "off_cpu_ns": self.off_cpu_ns,
            "mean_ns": self.mean_ns,
            "max_ns": self.max_ns,
            "histogram": _plain(self.histogram),
        }


@dataclass(frozen=True, slots=True)
class Owned:
    """Waits for folios of one owner with one aim: of a whole file, or of one page of it.

    ``index`` and ``pages`` are those of the folio, in pages; None of a whole file.
    """

    kind: str
    aim: str
    device: str | None
    inode: int | None
    path: str | None
    name: str
    index: int | None
    pages: int | None
    count: int
    ns: int
    off_cpu_ns: int

    @property
    def file(self) -> tuple[str, str | None, int | None]:
        """Which file it is, or which kind of folios without one."""
        return self.kind, self.device, self.inode

    @property
    def label(self) -> str:
        """What a reader may call it."""
        if self.kind != "file":
            return NO_FILE.get(self.kind, self.kind)
        return self.path or self.name or f"inode {self.inode} of device {self.device}"

    @property
    def key(self) -> Hashable:
        """What waits have in common that are added up."""
        return self.file, self.path or self.name, self.aim, self.index

    def plus(self, other: Owned) -> Owned:
        """Return both together."""
        return replace(
            self,
            count=self.count + other.count,
            ns=self.ns + other.ns,
            off_cpu_ns=self.off_cpu_ns + other.off_cpu_ns,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Owned:
        """Rebuild from one element of ``files`` or ``pages``."""
        is_file, is_page = data["kind"] == "file", "index" in data
        path = data.get("path")
        return cls(
            kind=str(data["kind"]),
            aim=str(data["aim"]),
            device=str(data["device"]) if is_file else None,
            inode=int(data["inode"]) if is_file else None,
            path=None if path is None else str(path),
            name=str(data.get("name", "")),
            index=int(data["index"]) if is_page else None,
            pages=int(data["pages"]) if is_page else None,
            count=int(data["waits"]),
            ns=int(data["ns"]),
            off_cpu_ns=int(data["off_cpu_ns"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        page = {} if self.index is None else {"index": self.index, "pages": self.pages}
        return {
            "kind": self.kind,
            "device": self.device,
            "inode": self.inode,
            "path": self.path,
            "name": self.name,
            **page,
            "aim": self.aim,
            "waits": self.count,
            "ns": self.ns,
            "off_cpu_ns": self.off_cpu_ns,
        }


@dataclass(frozen=True, slots=True)
class Wakes:
    """Wake-ups of those who wait with one aim; ``let_go`` and ``nobody`` None: not known."""

    aim: str
    count: int
    let_go: int | None
    nobody: int | None
    ns: int
    max_ns: int
    histogram: Histogram

    @property
    def key(self) -> Hashable:
        """What wake-ups have in common that are added up."""
        return self.aim

    @property
    def mean_ns(self) -> float:
        """What one takes in the mean."""
        return self.ns / self.count

    def quantile_ns(self, quantile: float) -> int:
        """Return what a share of them does not exceed."""
        return _quantile(self.histogram, quantile, self.max_ns)

    def plus(self, other: Wakes) -> Wakes:
        """Return both together."""
        return replace(
            self,
            count=self.count + other.count,
            let_go=_sum(self.let_go, other.let_go),
            nobody=_sum(self.nobody, other.nobody),
            ns=self.ns + other.ns,
            max_ns=max(self.max_ns, other.max_ns),
            histogram=added((self.histogram, other.histogram)),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wakes:
        """Rebuild from one element of ``wakes``."""
        let_go, nobody = data["let_go"], data["nobody"]
        return cls(
            str(data["aim"]),
            int(data["wakes"]),
            None if let_go is None else int(let_go),
            None if nobody is None else int(nobody),
            int(data["ns"]),
            int(data["max_ns"]),
            _histogram(data["histogram"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data; the mean beside what a run has."""
        return {
            "aim": self.aim,
            "wakes": self.count,
            "let_go": self.let_go,
            "nobody": self.nobody,
            "ns": self.ns,
            "mean_ns": self.mean_ns,
            "max_ns": self.max_ns,
            "histogram": _plain(self.histogram),
        }


@dataclass(frozen=True, slots=True)
class Folio:
    """All that is known of waits for folios: of one run, or of several.

    ``calls`` and ``without_sleep`` are by function; lists go from the longest time down.
    """

    waits: tuple[Waits, ...]
    files: tuple[Owned, ...]
    pages: tuple[Owned, ...]
    wakes: tuple[Wakes, ...]
    calls: Mapping[str, int] = field(default_factory=dict)
    without_sleep: Mapping[str, int] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)
    wakes_in_interrupts: int = 0
    open: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Folio:
        """Rebuild from what a run has.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: when ``data`` has another shape.
        """
        files = [Owned.from_json(one) for one in data["files"]]
        named = {one.file: one for one in files}
        pages = [Owned.from_json(one) for one in data["pages"]]
        calls = data["calls"]
        return cls(
            _together(Waits.from_json(one) for one in data["waits"]),
            tuple(files),
            tuple(_named(page, named.get(page.file)) for page in pages),
            tuple(Wakes.from_json(one) for one in data["wakes"]),
            {str(name): int(one["calls"]) for name, one in calls.items()},
            {str(name): int(one["without_sleep"]) for name, one in calls.items()},
            {str(name): str(why) for name, why in data["unseen"].items()},
            int(data["wakes_in_interrupts"]),
            int(data["open"]),
            {str(name): int(count) for name, count in data["lost"].items()},
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "waits": [one.to_json() for one in self.waits],
            "calls": {
                name: {"calls": count, "without_sleep": self.without_sleep[name]}
                for name, count in self.calls.items()
            },
            "files": [one.to_json() for one in self.files],
            "pages": [one.to_json() for one in self.pages],
            "wakes": [one.to_json() for one in self.wakes],
            "wakes_in_interrupts": self.wakes_in_interrupts,
            "unseen": dict(self.unseen),
            "open": self.open,
            "lost": dict(self.lost),
        }


Item = TypeVar("Item", Waits, Owned, Wakes)


def merged(runs: Sequence[Folio]) -> Folio:
    """Return all runs together."""
    return Folio(
        _together(one for run in runs for one in run.waits),
        _together(one for run in runs for one in run.files),
        _together(one for run in runs for one in run.pages),
        _together(one for run in runs for one in run.wakes),
        _sums(run.calls for run in runs),
        _sums(run.without_sleep for run in runs),
        {name: why for run in runs for name, why in run.unseen.items()},
        sum(run.wakes_in_interrupts for run in runs),
        sum(run.open for run in runs),
        _sums(run.lost for run in runs),
    )


def _named(page: Owned, file: Owned | None) -> Owned:
    return page if file is None else replace(page, path=file.path, name=file.name)


def _together(items: Iterable[Item]) -> tuple[Item, ...]:
    """Add up what belongs together, the longest first."""
    found: dict[Hashable, Item] = {}
    for one in items:
        before = found.get(one.key)
        found[one.key] = one if before is None else before.plus(one)
    return tuple(sorted(found.values(), key=lambda one: one.ns, reverse=True))


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return found


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _quantile(histogram: Histogram, quantile: float, max_ns: int) -> int:
    shortest = bucket_lower_ns(bucket_of(histogram[0][0]))
    return quantile_ns(histogram, quantile, shortest, max_ns)


def _histogram(data: Sequence[Sequence[int]]) -> Histogram:
    return tuple((int(upper), int(count)) for upper, count in data)


def _plain(histogram: Histogram) -> list[list[int]]:
    return [list(bucket) for bucket in histogram]
