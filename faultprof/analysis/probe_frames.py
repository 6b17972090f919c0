"""Which frames of a sampled stack belong to the probes and not to what they probe.

Knows: what kprobes, fentry and BPF programs look like in a kernel stack, and where that places a
sample in the traced call tree.
Leaves to others: comparing (``cross_check``, ``diff_sides``).

A sampler beside a tracer also hits the tracer. As the clock is read last at an entry and first at
a return, the tracer counts the time of a function's probes as its caller's, while a stack shows
them in the function:

    caller, f, bpf_trampoline_1, bpf_prog_2_f      fentry and fexit programs of f
    caller, f, bpf_trampoline_1, f, ...            f itself: a trampoline calls its body
    caller, f, bpf_trampoline_1, g, ...            f, which has ended in a tail call to g
    caller, f, ftrace_trampoline, ...              kprobe of f
    caller, arch_rethook_trampoline, ...           kretprobe of f, which has left the stack
    host, asm_exc_int3, ...                        kprobe inside a function, which is in its time

Where kprobes are breakpoints everywhere, as on arm64, the last form also stands for the entry of a
function: its probe then counts for the function itself.

The part of a probe's time between the two readings of the clock is the function's for the tracer,
and the caller's here: that is for the calibration to explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from faultprof.recording.frames import INFERRED, INLINED, UNRESOLVED, Frame

_TRAMPOLINE = "bpf_trampoline_"
_PREFIXES = (_TRAMPOLINE, "bpf_prog_", "__bpf_prog_enter", "__bpf_prog_exit")
# What a trampoline calls besides the function (kernel/bpf/trampoline.c), and what interrupts it.
_HELPERS = ("bpf_", "__bpf_", "migrate_", "__migrate_", "__rcu_read_", "asm_", "el1h_64_")
# What calls a program at the first instruction of a function (x86: kernel/kprobes/ftrace.c).
_AT_ENTRY = {
    "ftrace_trampoline",
    "ftrace_caller",
    "ftrace_call",
    "ftrace_regs_caller",
    "ftrace_regs_call",
    "kprobe_ftrace_handler",
}
_ELSEWHERE = {
    "return_to_handler",
    "ftrace_return_to_handler",
    "arch_rethook_trampoline",
    "arch_rethook_trampoline_callback",
    "rethook_trampoline_handler",
    "__kretprobe_trampoline",
    "__kretprobe_trampoline_handler",
    "kretprobe_trampoline",
    "trampoline_handler",
    "trampoline_probe_handler",
    "kprobe_int3_handler",
    "kprobe_breakpoint_handler",
    "optimized_callback",
}


PROBES = Frame("[probes]", resolution=UNRESOLVED)


class Unprobed(NamedTuple):
    """A sampled path as it would be without probes; what is in a probe ends in ``PROBES``."""

    frames: tuple[Frame, ...] = ()
    probing: bool = False

    def then(self, frame: Frame, path: Sequence[Frame]) -> Unprobed:
        """Return the path one frame further down.

        Args:
            frame: what was called.
            path: the frames above it as they were sampled, root first.
        """
        if not self.probing:
            probing = _is_probe(frame)
            return Unprobed((*self.frames, PROBES if probing else frame), probing)
        if not _is_body(frame, path):
            return self
        above = self.frames[:-1]
        again = bool(above) and above[-1].function == frame.function
        return Unprobed(above if again else (*above, frame))


class Place(NamedTuple):
    """Where a sampled path stands in the traced tree.

    Args:
        functions: the traced functions on the path, outermost first.
        probing: whether the path is in a probe.
        own: how many of the last functions a probe right here belongs to: their time has not
            begun, or is over.
    """

    functions: tuple[str, ...] = ()
    probing: bool = False
    own: int = 0

    @property
    def inside(self) -> tuple[str, ...]:
        """The functions whose traced time this is."""
        return self.functions[: len(self.functions) - self.own] if self.probing else self.functions

    def then(self, frame: Frame, path: Sequence[Frame], traced: str | None) -> Place:
        """Return the place one frame further down.

        Args:
            frame: what was called.
            path: the frames above it, root first.
            traced: as what the frame is traced; None when it is not.
        """
        if self.probing:
            if not _is_body(frame, path):
                return self
            # Back from the probe. By the function's own name it stands on the stack twice; by
            # another it is what the function ended in a tail call to.
            again = len(path) > 1 and path[-2].function == frame.function
            return Place(self.inside if again else self.functions).then(frame, (), traced)
        if traced is not None:
            # What is inlined has its host's probe.
            own = self.own + 1 if frame.resolution in (INFERRED, INLINED) else 1
            return Place((*self.functions, traced), own=own)
        if not _is_probe(frame):
            return Place(self.functions)
        is_own = _is_trampoline(frame) or frame.function in _AT_ENTRY
        return Place(self.functions, True, self.own if is_own else 0)


def _is_body(frame: Frame, path: Sequence[Frame]) -> bool:
    """Whether a trampoline called what it stands before, and not its own helpers."""
    return _is_trampoline(path[-1]) and not frame.function.startswith(_HELPERS)


def _is_trampoline(frame: Frame) -> bool:
    return frame.function.startswith(_TRAMPOLINE)


def _is_probe(frame: Frame) -> bool:
    name = frame.function
    return name.startswith(_PREFIXES) or name in _AT_ENTRY or name in _ELSEWHERE
