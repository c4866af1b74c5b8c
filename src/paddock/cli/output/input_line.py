"""An input line at the bottom of the terminal, with output appearing above it.

Typed text stays in place whatever is printed meanwhile. Without a terminal, lines are read from a pipe as they arrive.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import termios
import tty
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager

from paddock.core.printable import printable

PROMPT = "> "
_CLEAR_LINE = "\r\x1b[K"
_MAX_LINE_CHARS = 64 * 1024
_MAX_HISTORY_LINES = 100


class InputLine:
    """The input line with its history. Made by `open_input_line`."""

    def __init__(self, *, interactive: bool) -> None:
        self._interactive = interactive
        self._text = ""
        self._history: list[str] = []
        self._history_offset = 0  # how far back in the history the line is
        self._partial = b""  # incomplete bytes of a character or key
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    async def lines(self) -> AsyncGenerator[str, None]:
        """Iterate over submitted lines until the end of input."""
        while (line := await self._lines.get()) is not None:
            yield line

    def print_above(self, text: str) -> None:
        """Print text above the input line."""
        sys.stdout.write((_CLEAR_LINE if self._interactive else "") + text + "\n" + self._prompt())
        sys.stdout.flush()

    def on_stdin_readable(self) -> None:
        """Read what is available on stdin."""
        data = os.read(sys.stdin.fileno(), 4_096)
        if not data:
            self._end_of_input()
        elif self._interactive:
            self._handle_keys(data)
        else:
            *lines, self._partial = (self._partial + data)[-_MAX_LINE_CHARS:].split(b"\n")
            for line in lines:
                self._lines.put_nowait(line.decode("utf-8", "replace"))

    def redraw(self) -> None:
        sys.stdout.write((_CLEAR_LINE if self._interactive else "") + self._prompt())
        sys.stdout.flush()

    def clear(self) -> None:
        if self._interactive:
            sys.stdout.write(_CLEAR_LINE)
            sys.stdout.flush()

    def _prompt(self) -> str:
        if not self._interactive:
            return ""
        # Show only the end of a long line: a line wider than the terminal could not be cleared.
        columns = shutil.get_terminal_size((80, 24)).columns - len(PROMPT) - 1
        return PROMPT + printable(self._text, _MAX_LINE_CHARS)[-max(columns, 10) :]

    def _end_of_input(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._lines.put_nowait("quit" if self._interactive else None)

    def _handle_keys(self, data: bytes) -> None:
        data, self._partial = self._partial + data, b""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.end < len(data):  # invalid, not just an incomplete character
                return
            text, self._partial = data[: error.start].decode(), data[error.start :]
        for sequence, offset in (("\x1b[A", 1), ("\x1b[B", -1), ("\x1bOA", 1), ("\x1bOB", -1)):
            if text == sequence:
                self._recall_history(offset)
                return
        if not text.startswith("\x1b"):  # other keys are ignored
            for character in text:
                self._handle_key(character)
        self.redraw()

    def _handle_key(self, character: str) -> None:
        match character:
            case "\r" | "\n":
                self._submit_line()
            case "\x7f" | "\b":
                self._text = self._text[:-1]
            case "\x15":  # Ctrl-U
                self._text = ""
            case "\x04" if not self._text:  # Ctrl-D
                self._end_of_input()
            case _ if character.isprintable():
                self._text = (self._text + character)[:_MAX_LINE_CHARS]
            case _:
                pass

    def _submit_line(self) -> None:
        line, self._text, self._history_offset = self._text, "", 0
        sys.stdout.write(f"{_CLEAR_LINE}{PROMPT}{printable(line, _MAX_LINE_CHARS)}\n")
        if line.strip():
            self._history = [*self._history, line][-_MAX_HISTORY_LINES:]
        self._lines.put_nowait(line)

    def _recall_history(self, offset: int) -> None:
        self._history_offset = min(max(self._history_offset + offset, 0), len(self._history))
        self._text = self._history[-self._history_offset] if self._history_offset else ""
        self.redraw()


@contextmanager
def open_input_line() -> Generator[InputLine | None, None, None]:
    """Open the input line while the block runs, on a terminal or a pipe; None if stdin is neither.

    Call it on the event loop. The terminal's mode is restored when the block ends.
    """
    loop = asyncio.get_running_loop()
    if sys.stdin.isatty() and sys.stdout.isatty():
        line, descriptor = InputLine(interactive=True), sys.stdin.fileno()
        saved_mode = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)  # unbuffered characters; Ctrl-C stays a signal
        loop.add_reader(descriptor, line.on_stdin_readable)
        line.redraw()
        try:
            yield line
        finally:
            loop.remove_reader(descriptor)
            line.clear()
            termios.tcsetattr(descriptor, termios.TCSADRAIN, saved_mode)
    elif _stdin_is_pipe():
        line = InputLine(interactive=False)
        loop.add_reader(sys.stdin.fileno(), line.on_stdin_readable)
        try:
            yield line
        finally:
            loop.remove_reader(sys.stdin.fileno())
    else:
        yield None


def _stdin_is_pipe() -> bool:
    """Whether another process could write to stdin while we run; a file cannot be waited for."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
