"""One finding about this machine, and findings as text, JSON and an exit status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from typing import Any

STORE_TIMEOUT_S = 5.0
"""Seconds to wait for the store. Looks go side by side, and the first of a new release brings its shape up to date."""


class CheckStatus(StrEnum):
    """How bad it is: a failure means that something Paddock promises cannot work here."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, why it matters, and the exact line that mends it."""

    name: str
    status: CheckStatus
    found: str
    why: str = ""
    fix: str = ""
    code: str = ""
    details: tuple[str, ...] = ()  # what was found one by one, where it is more than one thing


_STATUS_LABELS = {CheckStatus.OK: "ok  ", CheckStatus.WARN: "warn", CheckStatus.FAIL: "FAIL"}


def exit_status(checks: Sequence[Check]) -> int:
    """1 when anything failed, else 0; warnings are for people."""
    return int(any(check.status is CheckStatus.FAIL for check in checks))


def to_json(checks: Sequence[Check]) -> dict[str, Any]:
    """The findings as one document."""
    return {
        "ok": exit_status(checks) == 0,
        "checks": [
            {
                "name": check.name,
                "status": check.status.value,
                "found": single_line(check.found),
                "why": check.why,
                "fix": single_line(check.fix, None),
                "code": check.code,
                "details": [single_line(line) for line in check.details],
            }
            for check in checks
        ],
    }


def text_lines(checks: Sequence[Check], columns: int = 10_000) -> list[str]:
    """The findings as lines for a terminal: reasons and fixes only where something is wrong, a summary at the end.

    Words are continued on further lines where the terminal is narrower; a line to type stays whole.
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
    room = max(columns, len(indent) + 20)
    return wrap(text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def single_line(text: str, longest: int | None = 1000) -> str:
    """One line that other programs' output cannot use to move the cursor, cut at this length."""
    flat = "".join(char if char.isprintable() else " " for char in text).strip()
    return flat if longest is None or len(flat) <= longest else flat[: longest - 1] + "…"
