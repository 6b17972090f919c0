"""The command's output on its way: it gets to where it was going, and we can read it, too.

Knows: what stands between the command and our streams, who copies, and how much is kept.
Leaves to others: what the text means (it is read by whoever asked for it), and which commands are
listened to at all: copying costs CPU time beside the command, so it is done only where a metric is
to be found in the output.

Where a stream of ours is a terminal, the command gets a pseudo-terminal: programs look whether
they print to one, and buffer, colour and page accordingly. It is not its controlling terminal and
the command stays in our process group: Ctrl-C, Ctrl-Z and job control work as without it. Its
output processing is off, since the true terminal does that. Where a stream is a file or a pipe,
the command gets a pipe. Streams that are the same file stay the same, so that what is printed to
both keeps its order.

The copying is done by a process of its own and not by a thread, since the command may leave
something behind that prints on after we have ended. It copies until the last writer has gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

_STREAMS = (1, 2)  # standard output and error
_CHUNK = 1 << 16
_KEPT = 16 << 20  # bytes of a run's output that are kept, the last ones: results come last
_LENGTH = struct.Struct("=Q")
_WINDOW_SIZE = 8  # struct winsize
_LOOK_SECONDS = 0.1


@dataclass(slots=True)
class _Channel:
    """One way out: what the command writes to, what we read, where that goes, for which streams."""

    command_end: int
    our_end: int
    target: int
    streams: tuple[int, ...]
    is_terminal: bool


class Output:
    """Copies what commands print, from now until the last of them has gone.

    Args:
        owner: user and group that run the commands; /dev/stdout can only be opened by its owner.

    To be made before anything heavy is loaded: a process is forked.
    """

    def __init__(self, owner: tuple[int, int] | None) -> None:
        self._channels = [_open_channel(streams, owner) for streams in _distinct_streams()]
        self._control, theirs = socket.socketpair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if os.fork() == 0:
            self._control.close()
            _copy_and_exit(self._channels, theirs)
        theirs.close()
        for channel in self._channels:
            os.close(channel.our_end)

    @property
    def streams(self) -> Mapping[int, int]:
        """What a command is to have in the place of each standard stream."""
        return {fd: one.command_end for one in self._channels for fd in one.streams}

    def release(self) -> None:
        """Let go of the commands' ends, once all commands have them; safe to repeat."""
        for channel in self._channels:
            if channel.command_end >= 0:
                os.close(channel.command_end)
                channel.command_end = -1

    def take(self, give_up: Callable[[], bool]) -> str:
        """Return what has been printed since the last time, once all of it has been passed on.

        Args:
            give_up: asked now and then whether to wait no longer, as for a pager that stands
                still; then nothing is returned.
        """
        self._control.sendall(b"?")
        while not select.select([self._control], [], [], _LOOK_SECONDS)[0]:
            if give_up():
                return ""
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        return self._receive(length).decode(errors="replace")

    def close(self) -> None:
        """Stop listening; what is still printed is passed on all the same. Safe to repeat."""
        self.release()
        self._control.close()

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length and (part := self._control.recv(length - len(data))):
            data += part
        return bytes(data).ljust(length, b"\0")  # it was killed: nothing was printed


def _distinct_streams() -> list[tuple[int, ...]]:
    """Return the standard streams, those together that are one file."""
    by_file: dict[tuple[int, int, int], tuple[int, ...]] = {}
    for fd in _STREAMS:
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino, status.st_rdev
        by_file[key] = (*by_file.get(key, ()), fd)
    return list(by_file.values())


def _open_channel(streams: tuple[int, ...], owner: tuple[int, int] | None) -> _Channel:
    target = streams[0]
    is_terminal = os.isatty(target)
    if is_terminal:
        our_end, command_end = os.openpty()
        attributes = termios.tcgetattr(command_end)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(command_end, termios.TCSANOW, attributes)
        _copy_window_size(target, our_end)
    else:
        our_end, command_end = os.pipe()
    if owner is not None:
        os.fchown(command_end, *owner)
    return _Channel(command_end, our_end, target, streams, is_terminal)


def _copy_window_size(terminal: int, pseudo_terminal: int) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(_WINDOW_SIZE))
        fcntl.ioctl(pseudo_terminal, termios.TIOCSWINSZ, size)


def _copy_and_exit(channels: list[_Channel], control: socket.socket) -> NoReturn:
    """Run in the child. The signals that end a recording are blocked here as in the parent."""
    try:
        for channel in channels:
            os.close(channel.command_end)
        _follow_window_size([one for one in channels if one.is_terminal])
        _Copier(channels, control).run()
    finally:
        os._exit(0)  # whatever happened, none of the parent's clean-up is ours


def _follow_window_size(channels: list[_Channel]) -> None:
    def resize(_number: int, _frame: object) -> None:
        for channel in channels:
            _copy_window_size(channel.target, channel.our_end)

    if channels:
        signal.signal(signal.SIGWINCH, resize)


class _Copier:
    """Copies all channels to their targets and answers requests for what was copied."""

    def __init__(self, channels: list[_Channel], control: socket.socket) -> None:
        self._channels = {channel.our_end: channel for channel in channels}
        self._control = control
        self._kept = bytearray()
        self._poll = select.poll()
        for fd in (*self._channels, control.fileno()):
            self._poll.register(fd, select.POLLIN)

    def run(self) -> None:
        asks = True
        while self._channels or asks:
            ready = [fd for fd, _ in self._poll.poll()]
            printed = [self._channels[fd] for fd in ready if fd in self._channels]
            for channel in printed:
                self._copy(channel)
            # Answered only when there is nothing left to copy.
            if not printed and not self._answer():
                self._poll.unregister(self._control)
                asks = False

    def _copy(self, channel: _Channel) -> None:
        data = _read(channel.our_end)
        try:
            _write(channel.target, data)
        except OSError:
            data = b""  # the reader (head, less) has gone: the command is to notice that
        self._kept += data
        if len(self._kept) > 2 * _KEPT:
            del self._kept[:-_KEPT]
        if not data:
            self._poll.unregister(channel.our_end)
            os.close(channel.our_end)
            del self._channels[channel.our_end]

    def _answer(self) -> bool:
        """Send what was kept; return whether the parent is still there."""
        if not self._control.recv(1):
            return False
        kept = self._kept[-_KEPT:]
        self._control.sendall(_LENGTH.pack(len(kept)) + kept)
        self._kept.clear()
        return True


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError as error:
        if error.errno == errno.EIO:  # a pseudo-terminal that nobody has open any more
            return b""
        raise


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:  # whoever started us set it so
            select.select([], [fd], [])
