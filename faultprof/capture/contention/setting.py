"""What a part of contention is opened with: whose tasks, beside what, on which kernel.

Knows: that what several parts need is read once.
Leaves to others: the parts; the engines beside them (``capture.engines``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from faultprof.capture.options import RecordOptions
from faultprof.capture.scope import Scope
from faultprof.errors import unsupported

if TYPE_CHECKING:
    from faultprof.capture.tracing import Tracer
    from faultprof.kernel.btf_types import BtfTypes
    from faultprof.kernel.symbols import Symbolizer
    from faultprof.kernel.view import KernelView


@dataclass(frozen=True)
class Setting:
    """What a part is opened with.

    Attributes:
        options: of the recording.
        scope: the tasks; its maps are lent by the engine that follows them, which outlives the
            part.
        owner: whose cache is used for debuginfo; None for the caller's.
        tracer: what traces beside the part, which outlives it; None where samples are taken only.
        known: the kernel, where it has been read already.
    """

    options: RecordOptions
    scope: Scope
    owner: tuple[int, int] | None
    tracer: Tracer | None = None
    known: KernelView | None = None

    @cached_property
    def types(self) -> BtfTypes:
        """The kernel's types.

        Raises:
            FaultprofError: exit code 3, where it has no BTF.
        """
        from faultprof.kernel.btf_types import BtfTypes

        types = BtfTypes.read()
        if types is None:
            raise unsupported("this kernel has no BTF", "see 'faultprof doctor'")
        return types

    @cached_property
    def view(self) -> KernelView:
        """What functions are on this kernel; some 0.3 s when it is first asked for."""
        if self.known is not None:
            return self.known
        from faultprof.kernel.view import KernelView

        return KernelView.read(owner=self.owner)

    @cached_property
    def symbols(self) -> Symbolizer:
        """Names for kernel addresses, as they were when it was first asked for."""
        from faultprof.kernel.symbols import Symbolizer

        return Symbolizer(owner=self.owner)
