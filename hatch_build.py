"""Puts the manual's pages into the package when it is built.

Knows: hatchling's hooks, and where pages are installed.
Leaves to others: the pages (``faultprof.cli.manual``).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    """Writes a page per command and lets the wheel install them below share/man."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the pages and say where they go, before a wheel is built."""
        sys.path.insert(0, self.root)
        from faultprof.cli.manual import manual

        self._directory = Path(tempfile.mkdtemp(prefix="faultprof-man-"))
        for name, text in manual().items():
            page = self._directory / name
            page.write_text(text, "utf-8")
            build_data["shared_data"][str(page)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the pages, which are in the wheel now."""
        shutil.rmtree(self._directory)
