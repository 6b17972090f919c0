"""Where do_read_fault is inferred, and where nothing is claimed."""

from __future__ import annotations

import pytest

from faultprof.capture.labels import FaultLabel, Labelled, infer_read_fault
from faultprof.recording.frames import INFERRED, INLINED, Frame

ENTRY = "asm_exc_page_fault"
SYSCALL = "entry_SYSCALL_64_after_hwframe"


def _path(*functions: str) -> tuple[Frame, ...]:
    return tuple(Frame(function) for function in functions)


@pytest.mark.parametrize(
    ("functions", "label", "labelled"),
    [
        ((ENTRY, "handle_mm_fault", "do_fault", "__do_fault"), FaultLabel.READ, Labelled.READ),
        ((ENTRY, "handle_mm_fault", "do_fault"), FaultLabel.READ, Labelled.READ),
        ((ENTRY, "handle_mm_fault", "do_fault", "__do_fault"), FaultLabel.WRITE, Labelled.OTHER),
        ((ENTRY, "do_fault", "__do_fault"), FaultLabel.UNKNOWN, Labelled.UNKNOWN),
        # Fault-around is a read fault's, whatever is known of it.
        ((ENTRY, "do_fault", "filemap_map_pages"), FaultLabel.UNKNOWN, Labelled.READ),
        ((SYSCALL, "do_fault", "filemap_map_pages"), FaultLabel.WRITE, Labelled.READ),
        # get_user_pages: the label is that of another fault.
        ((SYSCALL, "do_fault", "__do_fault"), FaultLabel.READ, Labelled.UNKNOWN),
        # The handler faulted itself: the label is that of the inner fault, do_fault is not.
        ((ENTRY, "do_fault", "copy", ENTRY, "handle_mm_fault"), FaultLabel.READ, Labelled.UNKNOWN),
        ((ENTRY, "handle_mm_fault", "do_anonymous_page"), FaultLabel.READ, Labelled.NO_FAULT),
        ((), FaultLabel.READ, Labelled.NO_FAULT),
    ],
)
def test_what_is_inferred(
    functions: tuple[str, ...], label: FaultLabel, labelled: Labelled
) -> None:
    path, found = infer_read_fault(_path(*functions), label)
    assert found is labelled
    inferred = [frame for frame in path if frame.resolution == INFERRED]
    assert len(inferred) == (labelled is Labelled.READ)
    assert tuple(frame for frame in path if frame not in inferred) == _path(*functions)
    if inferred:
        assert path[path.index(inferred[0]) - 1].function == "do_fault"


def test_debuginfo_has_said_it_already() -> None:
    path = (*_path(ENTRY, "do_fault"), Frame("do_read_fault", resolution=INLINED))
    assert infer_read_fault(path, FaultLabel.READ) == (path, Labelled.NO_FAULT)
