"""Whose a recording is: what only root can set up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from faultprof.recording.writer import write_recording
from tests.unit.recordings import SESSION, recorded, session_metadata


def test_the_owner_gets_the_file(tmp_path: Path) -> None:
    write_recording(tmp_path / "x.fprof", session_metadata(), SESSION, owner=(12345, 54321))
    status = (tmp_path / "x.fprof").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_someone_elses_recording_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "x.fprof"
    recorded(path, SESSION)
    for directory in (tmp_path, *tmp_path.parents):
        if directory.owner() == "root" and directory.stat().st_mode & 0o077 == 0:
            directory.chmod(0o755)
    script = (
        "import os, sys; from pathlib import Path; os.setuid(65534)\n"
        "from faultprof.recording.reader import read_recording\n"
        "from faultprof.errors import FaultprofError\n"
        "try: read_recording(Path(sys.argv[1]))\n"
        "except FaultprofError as e: print(e.exit_code, e.message, e.hint)"
    )
    command = [sys.executable, "-c", script, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("4 cannot read ")
    assert "with sudo" in result.stdout
