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

from paddock.core.error_mapping import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, error_to_json, exit_code
from paddock.core.errors import (
    Conflict,
    HostError,
    Invalid,
    NeedsApproval,
    NeedsConsent,
    PaddockError,
    Problem,
    StoreUnavailable,
)
from paddock.core.printable import printable
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS

P = ParamSpec("P")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]

NARROW_COLUMNS = 80
_WRITE_FAILED_CODE = "output.unwritten"
_DEBUG_HINT = "PADDOCK_DEBUG=1 before the command shows where"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def styled(text: str, *styles: str, stream: Any = None) -> str:
    """The text in colour where the stream is a terminal that wants it."""
    target = stream or sys.stderr
    if "NO_COLOR" in os.environ or not target.isatty():
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"


def print_message(text: str = "") -> None:
    """A line for a person, on stderr."""
    sys.stderr.write(text + "\n")


def print_result(text: str) -> None:
    """A line of the result, on stdout."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_write_error(error) from error


def output_write_error(error: OSError) -> HostError:
    """What is told when stdout takes no more."""
    return HostError(f"the result could not be written: {error.strerror}", code=_WRITE_FAILED_CODE)


def print_json(value: Any) -> None:
    """The result as one JSON document, on stdout."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON escapes what ASCII calls control characters; terminals obey a few more.
    print_result("\n".join(line if line.isprintable() else _escape_control_chars(line) for line in text.split("\n")))


def _escape_control_chars(line: str) -> str:
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)


def print_problems(problems: Iterable[Problem], word: str, style: str) -> None:
    for problem in problems:
        where = printable(problem.path or "(document)")
        line = f" (line {problem.line})" if problem.line is not None else ""
        print_message(f"  {styled(word, style)} {where}{line}: {printable(problem.message, 400)}")
        if problem.hint:
            print_message(f"        {styled('→', 'dim')} {printable(problem.hint, 400)}")


def handle_errors(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose errors are told in words, or as JSON, and turned into its exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
        except PaddockError as error:
            raise typer.Exit(report_error(error, as_json=as_json)) from None
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError:
            raise typer.Exit(EXIT_BROKEN_PIPE) from None
        except KeyboardInterrupt as stop:
            report_interrupt(as_json=as_json, left=stop.left if isinstance(stop, InterruptedCommand) else None)
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except Exception as error:
            # The boundary: whatever a command did not foresee, a person gets a sentence and not our source code.
            if os.environ.get("PADDOCK_DEBUG") == "1":
                import traceback

                traceback.print_exc()
            raise typer.Exit(report_error(wrap_unexpected_error(error), as_json=as_json)) from None

    return run


class InterruptedCommand(KeyboardInterrupt):
    """Ctrl-C, which left something behind that whoever pressed it has to know of."""

    def __init__(self, left: PaddockError) -> None:
        super().__init__()
        self.left = left


def report_interrupt(*, as_json: bool, left: PaddockError | None = None) -> None:
    """Tell that somebody pressed Ctrl-C, and what that left behind."""
    error = Conflict("interrupted", code="interrupted", hint=left.hint if left else "", details=left and left.details)
    if as_json:
        print_json({"error": error_to_json(error)})
    print_message("\ninterrupted")
    if error.hint:
        print_message(f"  {styled('→', 'dim')} {printable(error.hint, 600)}")


def report_error(error: PaddockError, *, as_json: bool) -> int:
    """Tell an error, and give the exit code that goes with it."""
    if as_json and error.error_code != _WRITE_FAILED_CODE:
        print_json({"error": error_to_json(error)})
    print_error(error)
    return exit_code(error)


def wrap_unexpected_error(error: Exception) -> PaddockError:
    """The error of our own tree for one that nobody foresaw."""
    if isinstance(error, OSError) and error.errno is not None:
        where = f": {error.filename}" if error.filename else ""
        if error.errno in OUT_OF_SPACE_ERRNOS:
            return StoreUnavailable(f"there is no room left{where}", code="store.full", hint="free some space: df -h")
        return HostError(f"the system refused: {error.strerror}{where}", code="system_refused", hint=_DEBUG_HINT)
    return HostError(
        f"something went wrong inside Paddock: {type(error).__name__}: {error}", code="internal", hint=_DEBUG_HINT
    )


def print_error(error: PaddockError) -> None:
    """An error in words: what is wrong, all of it, and what to do next."""
    print_message(f"{_error_label(error)} {printable(error.message, 600)}")
    if isinstance(error, Invalid):
        print_problems(error.problems, "✗", "red")
    if error.hint:
        print_message(f"  {styled('→', 'dim')} {printable(error.hint, 600)}")


def _error_label(error: PaddockError) -> str:
    if not isinstance(error, NeedsConsent | NeedsApproval):
        return styled("error:", "red", "bold")
    return styled("stopped:" if error.error_code == "consent_refused" else "waiting:", "yellow", "bold")


def is_interactive() -> bool:
    """Whether a person can answer: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_yes_no(question: str) -> bool:
    """A yes-or-no question on the terminal; only a clear yes is one."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def terminal_columns() -> int:
    """How many columns the result may take; without a terminal nothing has to fit."""
    return shutil.get_terminal_size((120, 40)).columns if sys.stdout.isatty() else 10_000


def wrap_text(text: str, indent: int, width: int | None = None) -> str:
    """The text continued on further lines where the terminal is narrower, those indented."""
    width = terminal_columns() if width is None else width
    if len(text) <= width:
        return text
    # Imported here: most results fit.
    from textwrap import wrap

    # Words stay whole, however long: they are paths and digests, which people copy.
    lines = wrap(
        text,
        max(width, indent + 20),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Sequence[str] = ()) -> list[str]:
    """Rows as aligned lines; the last column takes what the terminal has left and is continued below where it must be.

    Args:
        headings: One for each column.
        rows: The cells.
        spare: Columns that a terminal of less than 80 columns goes without, the first to go first; the last column is
            then cut short instead of being continued.
    """
    width = terminal_columns()
    cells = [[printable(cell, 300) for cell in row] for row in rows]
    shown = list(range(len(headings)))
    for heading in spare if width < NARROW_COLUMNS else ():
        if _table_width(headings, cells, shown) > width:
            shown.remove(headings.index(heading))
    widths = [_column_width(headings, cells, column) for column in shown]
    left = width - sum(widths[:-1]) - 2 * (len(widths) - 1)

    if left < 20 and not spare:  # side by side it is unreadable: below each other, and a little to the right
        return [
            styled("  ".join(headings), "bold", stream=sys.stdout),
            *("\n".join([row[0], *(wrap_text(f"    {cell}", 4, width) for cell in row[1:] if cell)]) for row in cells),
        ]

    def line(row: Sequence[str]) -> str:
        first = "  ".join(row[column].ljust(size) for column, size in zip(shown[:-1], widths[:-1], strict=True))
        tail = row[shown[-1]]
        if len(tail) <= left:
            return f"{first}  {tail}".rstrip()
        if spare:
            return f"{first}  {tail[: max(left, 20) - 1]}…"
        return wrap_text(f"{first}  {tail}", width - left, width)

    return [styled(line(headings), "bold", stream=sys.stdout), *(line(row) for row in cells)]


def _column_width(headings: Sequence[str], cells: Sequence[Sequence[str]], column: int) -> int:
    return max(len(row[column]) for row in [headings, *cells])


def _table_width(headings: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[int]) -> int:
    return sum(_column_width(headings, cells, column) for column in shown) + 2 * (len(shown) - 1)
