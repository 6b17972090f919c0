"""How text, data and programs are put into a page or a picture so that they stay what they are.

Knows: escaping for HTML and XML, JSON inside a script element, the package's own assets.
Leaves to others: what is put in (``flame``, ``html``).

Every name passes ``terminal.sanitise`` first, so that no control character or mark that reorders
text is left; what HTML and XML would read as markup is escaped here, and nowhere else.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from faultprof.render.names import without_addresses
from faultprof.render.terminal import sanitise

_LONGEST = 300  # characters of a name in a picture; exports have all of them
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def shown(text: str) -> str:
    """Return ``text`` harmless and not too long for a picture, not yet escaped."""
    text = without_addresses(sanitise(text))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def escaped(text: str) -> str:
    """Return ``text`` for the content or a quoted attribute of an HTML or XML element."""
    return shown(text).translate(_MARKUP)


def script_json(data: Any) -> str:
    """Return ``data`` as JSON without any character that ends or begins markup."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)


def asset(name: str) -> str:
    """Return the text of one of the package's files in ``assets/``."""
    return files("faultprof.render").joinpath("assets", name).read_text("utf-8")
