"""``faultprof completion``: print what makes a shell complete faultprof's commands and options.

The scripts stand in ``shells/``; the package installs them where shells look for them. They ask
faultprof itself, through the variable ``VARIABLE``; only then does Typer load what answers, which
would cost every start some 25 ms.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

VARIABLE = "_FAULTPROF_COMPLETE"


class Shell(StrEnum):
    """The shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


FILES = {Shell.BASH: "faultprof.bash", Shell.ZSH: "_faultprof", Shell.FISH: "faultprof.fish"}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that makes a shell complete commands and options.

    An installed package has put the scripts where shells look for them; in a virtual environment,
    that is below its own share/.

    Examples:
      source <(faultprof completion bash)

      faultprof completion fish > ~/.config/fish/completions/faultprof.fish
    """
    from importlib.resources import files

    script = files("faultprof.cli").joinpath("shells", FILES[shell]).read_text("utf-8")
    print(script, end="")
