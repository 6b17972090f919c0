"""Small programs made by the system's compiler, and what its own tools say about them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from faultprof.capture.sampling import key_dtype

VALID, IP_ONLY = 1, 2  # enum bpf_stack_build_id_status

Record = tuple[int, bytes, int]

NEST = """
static volatile unsigned sum;
__attribute__((noinline)) static void inner(unsigned n) { while (n--) sum += n; }
__attribute__((noinline)) void outer(unsigned n) { inner(n); sum++; }
int main(void) { outer(1000); return 0; }
"""


@dataclass(frozen=True, slots=True)
class Program:
    """An ELF file and its functions as nm tells them: address and size in bytes by name."""

    path: Path
    functions: dict[str, tuple[int, int]]

    @property
    def build_id(self) -> bytes:
        """The build id as readelf prints it."""
        notes = tool("readelf", "-n", self.path)
        return bytes.fromhex(notes.partition("Build ID:")[2].split()[0])

    def start(self, function: str) -> int:
        """File offset of a function's first byte."""
        return self.offset(self.functions[function][0])

    def end(self, function: str) -> int:
        """File offset behind a function's last byte."""
        return self.start(function) + self.functions[function][1]

    def offset(self, address: int) -> int:
        """File offset of an address, by the segments that readelf lists."""
        for line in tool("readelf", "-lW", self.path).splitlines():
            words = line.split()
            if words[:1] == ["LOAD"]:
                offset, start, _, size = (int(word, 16) for word in words[1:5])
                if start <= address < start + size:
                    return address - start + offset
        raise AssertionError(f"{address:#x} is in no segment of {self.path}")


def tool(*command: str | Path) -> str:
    """Run a tool and return what it prints."""
    words = [str(word) for word in command]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


def build(path: Path, source: str = NEST, *flags: str) -> Program:
    """Compile C without optimization, with frame pointers and a build id."""
    text = path.with_name(path.name + ".c")
    text.write_text(source)
    always = ("-O0", "-fno-omit-frame-pointer", "-Wl,--build-id=sha1")
    tool("cc", *always, *flags, "-o", path, text)
    functions = {}
    for line in tool("nm", "-S", "--defined-only", path).splitlines():
        words = line.split()
        size = int(words[1], 16) if len(words) == 4 else 0
        functions[words[-1]] = int(words[0], 16), size
    return Program(path, functions)


def user_stack(*records: Record) -> npt.NDArray[np.void]:
    """Return a user stack as a sample's key holds it; records leaf first, build ids padded."""
    key = np.zeros(1, key_dtype(user_stacks=True))
    for level, (status, build_id, offset) in enumerate(records):
        key["user"][0, level] = (status, np.void(build_id.ljust(20, b"\0")), offset)
    stack: npt.NDArray[np.void] = key["user"][0, : len(records)]
    return stack
