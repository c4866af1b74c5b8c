"""One line at the bottom of the terminal that a person types on while other lines appear above it.

What is typed stays there whatever is said meanwhile. Without a terminal, lines are read from a pipe as they come.
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
    """The line, and what was typed on it before. Made by `input_line`."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._typed = ""
        self._history: list[str] = []
        self._back = 0  # how far back in the history we are
        self._rest = b""  # of a character or a key that has not wholly arrived
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    async def lines(self) -> AsyncGenerator[str, None]:
        """Whole lines, until nobody can type any more."""
        while (line := await self._lines.get()) is not None:
            yield line

    def print_above(self, text: str) -> None:
        """Show lines above the one that is typed on."""
        sys.stdout.write((_CLEAR_LINE if self._shown else "") + text + "\n" + self._prompt())
        sys.stdout.flush()

    def on_stdin_readable(self) -> None:
        """Something can be read from stdin."""
        data = os.read(sys.stdin.fileno(), 4_096)
        if not data:
            self._end_of_input()
        elif self._shown:
            self._handle_keys(data)
        else:
            *whole, self._rest = (self._rest + data)[-_MAX_LINE_CHARS:].split(b"\n")
            for line in whole:
                self._lines.put_nowait(line.decode("utf-8", "replace"))

    def redraw(self) -> None:
        sys.stdout.write((_CLEAR_LINE if self._shown else "") + self._prompt())
        sys.stdout.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stdout.write(_CLEAR_LINE)
            sys.stdout.flush()

    def _prompt(self) -> str:
        if not self._shown:
            return ""
        # A line that is longer than the terminal could not be wiped: its end is what is looked at.
        room = shutil.get_terminal_size((80, 24)).columns - len(PROMPT) - 1
        return PROMPT + printable(self._typed, _MAX_LINE_CHARS)[-max(room, 10) :]

    def _end_of_input(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._lines.put_nowait("quit" if self._shown else None)

    def _handle_keys(self, data: bytes) -> None:
        data, self._rest = self._rest + data, b""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.end < len(data):  # not just a character cut in two
                return
            text, self._rest = data[: error.start].decode(), data[error.start :]
        for known, moved in (("\x1b[A", 1), ("\x1b[B", -1), ("\x1bOA", 1), ("\x1bOB", -1)):
            if text == known:
                self._recall_history(moved)
                return
        if not text.startswith("\x1b"):  # other keys mean nothing here
            for character in text:
                self._handle_key(character)
        self.redraw()

    def _handle_key(self, character: str) -> None:
        match character:
            case "\r" | "\n":
                self._submit_line()
            case "\x7f" | "\b":
                self._typed = self._typed[:-1]
            case "\x15":  # Ctrl-U
                self._typed = ""
            case "\x04" if not self._typed:  # Ctrl-D
                self._end_of_input()
            case _ if character.isprintable():
                self._typed = (self._typed + character)[:_MAX_LINE_CHARS]
            case _:
                pass

    def _submit_line(self) -> None:
        line, self._typed, self._back = self._typed, "", 0
        sys.stdout.write(f"{_CLEAR_LINE}{PROMPT}{printable(line, _MAX_LINE_CHARS)}\n")
        if line.strip():
            self._history = [*self._history, line][-_MAX_HISTORY_LINES:]
        self._lines.put_nowait(line)

    def _recall_history(self, moved: int) -> None:
        self._back = min(max(self._back + moved, 0), len(self._history))
        self._typed = self._history[-self._back] if self._back else ""
        self.redraw()


@contextmanager
def open_input_line() -> Generator[InputLine | None, None, None]:
    """The line for as long as the block runs, on a terminal or from a pipe; None where there is nobody to read from.

    Call it on the event loop. The terminal is as it was when the block ends.
    """
    loop = asyncio.get_running_loop()
    if sys.stdin.isatty() and sys.stdout.isatty():
        line, number = InputLine(shown=True), sys.stdin.fileno()
        before = termios.tcgetattr(number)
        tty.setcbreak(number)  # characters as they come; Ctrl-C stays a signal
        loop.add_reader(number, line.on_stdin_readable)
        line.redraw()
        try:
            yield line
        finally:
            loop.remove_reader(number)
            line.clear()
            termios.tcsetattr(number, termios.TCSADRAIN, before)
    elif _stdin_is_pipe():
        line = InputLine(shown=False)
        loop.add_reader(sys.stdin.fileno(), line.on_stdin_readable)
        try:
            yield line
        finally:
            loop.remove_reader(sys.stdin.fileno())
    else:
        yield None


def _stdin_is_pipe() -> bool:
    """Whether somebody could write to our stdin while we run; a file or nothing at all cannot be waited for."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
