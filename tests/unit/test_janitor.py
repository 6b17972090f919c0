"""What tracefs tells of the kprobes of a process."""

from __future__ import annotations

from pathlib import Path

from faultprof.bpf.janitor import missed_events_of

PROFILE = """\
  r_leave_do_fault_0_bcc_47                                 16828               3
  r_leave_do_wp_page_0_bcc_47                                  12               4
  r_leave_do_fault_0_bcc_147                                    1              50
  p_someone_else                                                5               6
"""


def test_only_our_own_misses_count(tmp_path: Path) -> None:
    (tmp_path / "kprobe_profile").write_text(PROFILE)
    assert missed_events_of(47, tmp_path / "kprobe_profile") == 7


def test_without_tracefs_none_are_known(tmp_path: Path) -> None:
    assert missed_events_of(47, tmp_path / "kprobe_profile") == 0
