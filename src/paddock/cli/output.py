"""What commands say: results on stdout (one JSON document with --json), everything meant for a person's eyes on stderr.

Plugins choose their own names and descriptions, so every text is made printable on its way out.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Annotated, Any, ParamSpec

import typer

from paddock.core.errors import Invalid, NeedsConsent, PaddockError, Problem
from paddock.core.outward import exit_code, to_json
from paddock.core.printable import printable

P = ParamSpec("P")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def styled(text: str, *styles: str, stream: Any = None) -> str:
    """The text in colour where the stream is a terminal that wants it."""
    target = stream or sys.stderr
    if "NO_COLOR" in os.environ or not target.isatty():
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"


def say(text: str = "") -> None:
    """A line for a person, on stderr."""
    sys.stderr.write(text + "\n")


def result(text: str) -> None:
    """A line of the result, on stdout."""
    sys.stdout.write(text + "\n")


def document(value: Any) -> None:
    """The result as one JSON document, on stdout."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON escapes what ASCII calls control characters; terminals obey a few more.
    sys.stdout.write("\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n")) + "\n")


def _escaped(line: str) -> str:
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)


def show_problems(problems: Iterable[Problem], word: str, style: str) -> None:
    for problem in problems:
        where = printable(problem.path or "(document)")
        line = f" (line {problem.line})" if problem.line is not None else ""
        say(f"  {styled(word, style)} {where}{line}: {printable(problem.message, 400)}")
        if problem.hint:
            say(f"        {styled('→', 'dim')} {printable(problem.hint, 400)}")


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose errors are told in words, or as JSON, and turned into its exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except PaddockError as error:
            if kwargs.get("as_json"):
                document({"error": to_json(error)})
            show_error(error)
            raise typer.Exit(exit_code(error)) from None

    return run


def show_error(error: PaddockError) -> None:
    """An error in words: what is wrong, all of it, and what to do next."""
    mark = styled("waiting:", "yellow", "bold") if isinstance(error, NeedsConsent) else styled("error:", "red", "bold")
    say(f"{mark} {printable(error.message, 600)}")
    if isinstance(error, Invalid):
        show_problems(error.problems, "✗", "red")
    if error.hint:
        say(f"  {styled('→', 'dim')} {printable(error.hint, 600)}")


def interactive() -> bool:
    """Whether a person can answer: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """A yes-or-no question on the terminal; only a clear yes is one."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned lines; the last column takes what the terminal has left."""
    cells = [[printable(cell, 300) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(headings), *cells]) for column in range(len(headings))]
    room = shutil.get_terminal_size((120, 40)).columns if sys.stdout.isatty() else 10_000
    last = max(20, room - sum(widths[:-1]) - 2 * (len(widths) - 1))

    def line(row: Sequence[str]) -> str:
        *first, tail = [*(cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)), row[-1]]
        return "  ".join([*first, tail if len(tail) <= last else tail[: last - 1] + "…"]).rstrip()

    return [styled(line(headings), "bold", stream=sys.stdout), *(line(row) for row in cells)]
