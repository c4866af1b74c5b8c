"""Output of commands: results on stdout (one JSON document with --json), messages for people on stderr.

Plugins choose their own names and descriptions, so every text is made printable before it is written.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from paddock.cli.output.action_text import command_line, remedy_lines
from paddock.core.error_formats import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, error_to_json, exit_code
from paddock.core.errors import (
    Conflict,
    HostError,
    Invalid,
    NeedsApproval,
    NeedsConsent,
    PaddockError,
    Problem,
)
from paddock.core.printable import printable
from paddock.store.filesystem import system_error

NARROW_COLUMNS = 80
_WRITE_FAILED_CODE = "output.unwritten"
DEBUG_HINT = "PADDOCK_DEBUG=1 before the command shows where"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def styled(text: str, *styles: str, stream: Any = None) -> str:
    """Return the text with colour codes if the stream is a terminal that wants them."""
    target = stream or sys.stderr
    if "NO_COLOR" in os.environ or not target.isatty():
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"


def print_message(text: str = "") -> None:
    """Print a line for a person on stderr, after the results so far: a pipe that takes both keeps their order."""
    flush_results()
    sys.stderr.write(text + "\n")


def flush_results() -> None:
    """Write the results so far now, and not when the command ends."""
    with suppress(OSError):  # reported when the command ends: what cannot be written stays in the buffer
        sys.stdout.flush()


def print_result(text: str) -> None:
    """Print a line of the result on stdout."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_write_error(error) from error


def print_facts(facts: Mapping[str, str]) -> None:
    """Print a line of the result for each fact, with its label in a column of its own."""
    width = max(map(len, facts))
    for label, value in facts.items():
        print_result(f"{styled(label.ljust(width), 'dim', stream=sys.stdout)}  {printable(value or '-', 400)}")


def output_write_error(error: OSError) -> HostError:
    """Build the error for a failed write to stdout."""
    return HostError(f"the result could not be written: {error.strerror}", code=_WRITE_FAILED_CODE)


def print_json(value: Any) -> None:
    """Print the result as one JSON document on stdout."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON escapes the control characters of ASCII; terminals obey a few more.
    print_result("\n".join(line if line.isprintable() else _escape_control_chars(line) for line in text.split("\n")))


def report_change(as_json: bool, message: str, **facts: object) -> None:
    """Print the result of a change."""
    if as_json:
        print_json(facts)
    print_message(f"{styled('✓', 'green')} {message}")


def _escape_control_chars(line: str) -> str:
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)


def print_problems(problems: Iterable[Problem], mark: str, style: str) -> None:
    for problem in problems:
        path = printable(problem.path or "(document)")
        line = f" (line {problem.line})" if problem.line is not None else ""
        print_message(f"  {styled(mark, style)} {path}{line}: {printable(problem.message, 400)}")
        print_remedy(problem, indent=8, max_chars=400)


@contextmanager
def errors_reported(*, as_json: bool) -> Generator[None]:
    """Print the errors of a command as text or JSON, and turn them into its exit code."""
    try:
        yield
    except PaddockError as error:
        raise click.exceptions.Exit(report_error(error, as_json=as_json)) from None
    except (click.exceptions.Exit, click.ClickException):
        raise
    except BrokenPipeError:
        raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None
    except KeyboardInterrupt as interrupt:
        consequence = interrupt.left if isinstance(interrupt, InterruptedCommand) else None
        report_interrupt(as_json=as_json, consequence=consequence)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    except Exception as error:
        # The boundary: for an unforeseen error a person gets a sentence, not a traceback.
        if os.environ.get("PADDOCK_DEBUG") == "1":
            import traceback

            traceback.print_exc()
        raise click.exceptions.Exit(report_error(wrap_unexpected_error(error), as_json=as_json)) from None


class InterruptedCommand(KeyboardInterrupt):
    """Ctrl-C, which left something behind that the person has to know about."""

    def __init__(self, left: PaddockError) -> None:
        super().__init__()
        self.left = left


def report_interrupt(*, as_json: bool, consequence: PaddockError | None = None) -> None:
    """Print that the command was interrupted, and what that left behind."""
    error = Conflict(
        "interrupted",
        code="interrupted",
        hint=consequence.hint if consequence else "",
        action=consequence and consequence.action,
        details=consequence and consequence.details,
    )
    if as_json:
        print_json({"error": _error_json(error)})
    print_message("\ninterrupted")
    print_remedy(error)


def report_error(error: PaddockError, *, as_json: bool) -> int:
    """Print an error and return its exit code."""
    if as_json and error.error_code != _WRITE_FAILED_CODE:
        print_json({"error": _error_json(error)})
    print_error(error)
    return exit_code(error)


def _error_json(error: PaddockError) -> dict[str, Any]:
    """The error as data, with its action as the command to type."""
    command = {"command": command_line(error.action)} if error.action else {}
    return {**error_to_json(error), **command}


def wrap_unexpected_error(error: Exception) -> PaddockError:
    """Wrap an unforeseen exception in an error of the host's own tree."""
    if isinstance(error, OSError) and error.errno is not None:
        return system_error(error, DEBUG_HINT)
    return HostError(
        f"something went wrong inside Paddock: {type(error).__name__}: {error}", code="internal", hint=DEBUG_HINT
    )


def print_error(error: PaddockError) -> None:
    """Print an error: what is wrong, every problem, and what to do next."""
    print_message(f"{_error_label(error)} {printable(error.message, 600)}")
    if isinstance(error, Invalid):
        print_problems(error.problems, "✗", "red")
    print_remedy(error)


def print_remedy(error: PaddockError | Problem, *, indent: int = 2, max_chars: int = 600) -> None:
    """Print what to do about an error: its hint, and the command to type."""
    print_remedy_lines(remedy_lines(error.hint, error.action), indent=indent, max_chars=max_chars)


def print_remedy_lines(lines: Iterable[str], *, indent: int = 2, max_chars: int = 600) -> None:
    """Print lines of `remedy_lines` on stderr."""
    for line in lines:
        print_message(f"{' ' * indent}{styled('→', 'dim')} {printable(line, max_chars)}")


def _error_label(error: PaddockError) -> str:
    if not isinstance(error, NeedsConsent | NeedsApproval):
        return styled("error:", "red", "bold")
    return styled("stopped:" if error.error_code == "consent_refused" else "waiting:", "yellow", "bold")


def is_interactive() -> bool:
    """Whether a person can answer: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_yes_no(question: str, *, default: bool = False) -> bool:
    """Ask a yes-or-no question at the terminal; anything but a clear yes is no, and with `default` Enter is yes."""
    sys.stderr.write(f"{question} {'[Y/n]' if default else '[y/N]'} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    answer = line.strip().lower()
    return answer in ("y", "yes") or (default and bool(line) and not answer)


def terminal_columns() -> int:
    """Return the width for results; without a terminal, nothing has to fit."""
    return shutil.get_terminal_size((120, 40)).columns if sys.stdout.isatty() else 10_000


def wrap_text(text: str, indent: int, width: int | None = None) -> str:
    """Wrap the text to the terminal's width, with continuation lines indented."""
    width = terminal_columns() if width is None else width
    if len(text) <= width:
        return text
    # Imported late: most results fit.
    from textwrap import wrap

    # Long words stay whole: they are paths and digests, which people copy.
    lines = wrap(
        text,
        max(width, indent + 20),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, hideable: Sequence[str] = ()) -> list[str]:
    """Format rows as aligned lines; the last column takes the remaining width and is wrapped.

    Args:
        headings: One for each column.
        rows: The cells.
        hideable: Columns to hide on a terminal of less than 80 columns, the first one first; the last column is then
            truncated instead of wrapped.
    """
    width = terminal_columns()
    cells = [[printable(cell, 300) for cell in row] for row in rows]
    columns = list(range(len(headings)))
    for heading in hideable if width < NARROW_COLUMNS else ():
        if _table_width(headings, cells, columns) > width:
            columns.remove(headings.index(heading))
    widths = [_column_width(headings, cells, column) for column in columns]
    remaining = width - sum(widths[:-1]) - 2 * (len(widths) - 1)

    if remaining < 20 and not hideable:  # too narrow for columns: put the cells below each other, indented
        return [
            styled("  ".join(headings), "bold", stream=sys.stdout),
            *("\n".join([row[0], *(wrap_text(f"    {cell}", 4, width) for cell in row[1:] if cell)]) for row in cells),
        ]

    def line(row: Sequence[str]) -> str:
        first = "  ".join(row[column].ljust(size) for column, size in zip(columns[:-1], widths[:-1], strict=True))
        tail = row[columns[-1]]
        if len(tail) <= remaining:
            return f"{first}  {tail}".rstrip()
        if hideable:
            return f"{first}  {tail[: max(remaining, 20) - 1]}…"
        return wrap_text(f"{first}  {tail}", width - remaining, width)

    return [styled(line(headings), "bold", stream=sys.stdout), *(line(row) for row in cells)]


def _column_width(headings: Sequence[str], cells: Sequence[Sequence[str]], column: int) -> int:
    return max(len(row[column]) for row in [headings, *cells])


def _table_width(headings: Sequence[str], cells: Sequence[Sequence[str]], columns: Sequence[int]) -> int:
    return sum(_column_width(headings, cells, column) for column in columns) + 2 * (len(columns) - 1)
