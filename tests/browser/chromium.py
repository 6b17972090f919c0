"""Opens a file in headless Chromium, without a network, and runs steps in it.

Knows: Chromium's command line, and how the steps' results and the console's errors come back.
Leaves to others: the steps.

A copy of the file gets one more script at its end: the steps. What they log stands in an attribute
of the page, which Chromium prints when it has drawn it.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_HELPERS = """
const results = [], log = (x) => results.push(x);
const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const frame = (name) =>
  all(".fp-frame").find((g) => g.querySelector("text")?.textContent === name);
const width = (name) => +frame(name).querySelector("rect").getAttribute("width");
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const key = (name, target) => (target || document.documentElement).dispatchEvent(
  new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const type = (selector, text) => {
  one(selector).value = text;
  one(selector).dispatchEvent(new Event("input", { bubbles: true }));
};
const status = () => one(".fp-status").textContent;
"""
_DRIVER = """
try { %s } catch (error) { log("FAILED " + error + error.stack); }
document.documentElement.setAttribute("data-results", JSON.stringify(results));
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """What the steps logged, and what the console said."""

    results: list[object]
    console: list[str]


def obstacle() -> str | None:
    """Return why nothing can be opened here, or None."""
    return None if shutil.which("chromium") else "tests/browser needs chromium: make browser"


def visit(file: Path, steps: str, *options: str) -> Visit:
    """Open a copy of ``file`` and run ``steps``, JavaScript that calls ``log``."""
    script = _HELPERS + _DRIVER % steps
    text = file.read_text()
    copy = file.with_name(f"driven{file.suffix}")
    if file.suffix == ".svg":
        ending = f"<script><![CDATA[{script}]]></script></svg>"
        copy.write_text(ending.join(text.rsplit("</svg>", 1)))
    else:
        copy.write_text(f"<script>{script}</script></body>".join(text.rsplit("</body>", 1)))
    done = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",  # which root cannot have
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={file.parent / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--window-size=1200,900",
            *options,
            "--dump-dom",
            copy.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'data-results="([^"]*)"', done.stdout)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Visit(json.loads(html.unescape(found[1])) if found else [], console)
