"""From raw stacks to named paths.

Knows: which frame of a stack is a return address, how stacks become paths with a root first.
Leaves to others: names (kernel.symbols), inference (labels), counting (sampling).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from faultprof.capture.labels import FaultLabel, Labelled, infer_read_fault
from faultprof.recording.frames import USER, Frame
from faultprof.recording.paths import PathCount

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from faultprof.capture.sampling import Samples

# A sample taken in user mode, when user stacks are not recorded.
USER_MODE = Frame("[user]", resolution=USER)

# A kernel address is looked up together with whether it is a return address.
Names = Mapping[tuple[int, bool], tuple[Frame, ...]]


class Resolver(Protocol):
    """What names kernel addresses; outermost frame first, inlined ones after it."""

    def resolve(
        self, addresses: npt.NDArray[np.uint64], is_return: npt.NDArray[np.bool_]
    ) -> list[tuple[Frame, ...]]:
        """Return one tuple of frames for each address."""


class UserResolver(Protocol):
    """What names user stacks, root first."""

    def resolve(self, stack: Any, samples: int = 1) -> tuple[Frame, ...]:
        """Return the frames of one user stack of build ids and offsets, seen ``samples`` times."""


@dataclass(slots=True)
class NamedPaths:
    """Paths with their samples, and what the fault labels could say about them (samples)."""

    paths: list[PathCount]
    labelled: Counter[Labelled] = field(default_factory=Counter)


def name_paths(
    samples: Samples, kernel: Resolver, user: UserResolver | None, *, infer: bool
) -> NamedPaths:
    """Name every stack of ``samples``; equal paths are left to be added up by the writer.

    Args:
        samples: what the sampler counted.
        kernel: names kernel addresses.
        user: names user stacks, or None if they were not taken.
        infer: whether to add inferred ``do_read_fault`` frames.
    """
    names = _kernel_names(samples, kernel)
    named = NamedPaths([])
    for key, count in zip(samples.keys, samples.counts.tolist(), strict=True):
        frames = tuple(_kernel_frames(key, names))
        if infer:
            frames, labelled = infer_read_fault(frames, FaultLabel(int(key["fault"])))
            named.labelled[labelled] += count
        below_user = _user_frames(key, count, user) if user else ()
        path = (*below_user, *frames) or (USER_MODE,)
        named.paths.append(PathCount(_comm(key), path, count))
    return named


def _user_frames(key: np.void, samples: int, user: UserResolver) -> tuple[Frame, ...]:
    return user.resolve(key["user"][: int(key["user_depth"])], samples)


def _comm(key: np.void) -> str:
    # The bytes after the first NUL are not part of the name.
    return bytes(key["comm"]).split(b"\0", 1)[0].decode(errors="replace")


def _kernel_names(samples: Samples, kernel: Resolver) -> Names:
    """Resolve each address once, leaves apart from return addresses."""
    import numpy as np

    deepest = int(samples.keys["kernel_depth"].max(initial=1))
    stacks = samples.keys["kernel"][:, :deepest]
    leaves = np.unique(stacks[:, 0])
    callers = np.unique(stacks[:, 1:])
    leaves, callers = leaves[leaves != 0], callers[callers != 0]
    addresses = np.concatenate([leaves, callers])
    is_return = np.concatenate([np.zeros(len(leaves), bool), np.ones(len(callers), bool)])
    frames = kernel.resolve(addresses, is_return)
    keys = zip(addresses.tolist(), is_return.tolist(), strict=True)
    return dict(zip(keys, frames, strict=True))


def _kernel_frames(key: np.void, names: Names) -> Iterator[Frame]:
    """Yield the frames of one stack, root first."""
    stack = key["kernel"][: int(key["kernel_depth"])].tolist()
    for level in range(len(stack) - 1, -1, -1):
        yield from names[stack[level], level > 0]
