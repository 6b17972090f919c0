"""The source tree as the files of a job."""

from __future__ import annotations

from pathlib import Path

from .errors import tool


def source_tree(repository: Path, below: str = "src") -> dict[str, Path]:
    """Return the files that git knows or would add, by their path in a job."""
    # The tree may belong to another user than root, which git refuses unless told otherwise.
    git = ["git", "-C", str(repository), "-c", "safe.directory=*"]
    names = tool([*git, "ls-files", "-z", "-co", "--exclude-standard"]).split("\0")
    paths = {name: repository / name for name in names if name}
    return {f"{below}/{name}": path for name, path in paths.items() if path.is_file()}
