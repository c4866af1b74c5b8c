"""The result of a doctor check, and results as text, JSON and an exit status."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from textwrap import wrap
from typing import Any

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import PaddockError

STORE_TIMEOUT_S = 5.0
"""Wait for the store's lock. Checks run concurrently, and the first one after an upgrade may migrate the database."""


class CheckStatus(StrEnum):
    """The status of a check: a failure means that something Paddock promises cannot work here."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Struct, frozen=True):
    """One check: its subject, the finding, why it matters, and what fixes it.

    Attributes:
        fix: A shell command or a change to make outside of Paddock.
        actions: What to do in Paddock.
        details: The findings one by one, if there are several.
    """

    name: str
    status: CheckStatus
    found: str
    why: str = ""
    fix: str = ""
    code: str = ""
    details: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()

    @classmethod
    def of_error(cls, name: str, error: PaddockError, why: str, details: tuple[str, ...] = ()) -> Check:
        """Build a failed check from an error."""
        actions = (error.action,) if error.action else ()
        return cls(name, CheckStatus.FAIL, error.message, why, error.hint, error.error_code, details, actions)


_STATUS_LABELS = {CheckStatus.OK: "ok  ", CheckStatus.WARN: "warn", CheckStatus.FAIL: "FAIL"}


def exit_status(checks: Sequence[Check]) -> int:
    """Return 1 if any check failed, else 0; warnings do not count."""
    return int(any(check.status is CheckStatus.FAIL for check in checks))


def to_json(checks: Sequence[Check]) -> dict[str, Any]:
    """Serialize the checks as one JSON document."""
    return {
        "ok": exit_status(checks) == 0,
        "checks": [
            {
                "name": check.name,
                "status": check.status.value,
                "found": single_line(check.found),
                "why": check.why,
                "fix": single_line(check.fix, None),
                "actions": [action.to_json() for action in check.actions],
                "code": check.code,
                "details": [single_line(line) for line in check.details],
            }
            for check in checks
        ],
    }


def text_lines(checks: Sequence[Check], columns: int = 10_000) -> list[str]:
    """Format the checks for a terminal: reasons and fixes only for problems, then a summary.

    Text is wrapped to the terminal's width; commands stay on one line.
    """
    width = max((len(check.name) for check in checks), default=0)
    indent = " " * (width + 8)
    lines: list[str] = []
    for check in checks:
        code = f" [{check.code}]" if check.code else ""
        lines += _wrap_line(
            f"{_STATUS_LABELS[check.status]}  {check.name:<{width}}  {single_line(check.found)}{code}", indent, columns
        )
        if check.status is not CheckStatus.OK:
            for detail in check.details:
                lines += _wrap_line(f"{indent}- {single_line(detail)}", f"{indent}  ", columns)
            if check.why:
                lines += _wrap_line(f"{indent}{check.why}", indent, columns)
            if check.fix:
                lines.append(f"{indent}→ {single_line(check.fix, None)}")
    failed = sum(check.status is CheckStatus.FAIL for check in checks)
    warned = sum(check.status is CheckStatus.WARN for check in checks)
    lines.append("")
    lines.append(f"{len(checks) - failed - warned} fine, {warned} to look at, {failed} failed")
    return lines


def _wrap_line(text: str, indent: str, columns: int) -> list[str]:
    if len(text) <= columns:
        return [text]
    width = max(columns, len(indent) + 20)
    return wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def single_line(text: str, max_chars: int | None = 1000) -> str:
    """Reduce a text to one line without control characters, cut at `max_chars`: it may be other programs' output."""
    flat = "".join(char if char.isprintable() else " " for char in text).strip()
    return flat if max_chars is None or len(flat) <= max_chars else flat[: max_chars - 1] + "…"
