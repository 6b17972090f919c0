"""What commands say on standard error besides errors, and how it is turned off.

Knows: ``--quiet``.
Leaves to others: errors, which ``cli`` prints whatever is asked for.
"""

from __future__ import annotations

import sys

quiet = False


def tell(text: str) -> None:
    """Say one line, unless nothing is to be said."""
    from faultprof.render.terminal import sanitise

    if not quiet:
        print(f"faultprof: {sanitise(text)}", file=sys.stderr)
