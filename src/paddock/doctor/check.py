"""One finding about this machine, and findings as text, JSON and an exit status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How bad it is: a failure means that something Paddock promises cannot work here."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, why it matters, and the exact line that mends it."""

    name: str
    status: Status
    found: str
    why: str = ""
    fix: str = ""
    code: str = ""


_MARKS = {Status.OK: "ok  ", Status.WARN: "warn", Status.FAIL: "FAIL"}


def exit_status(checks: Sequence[Check]) -> int:
    """1 when anything failed, else 0; warnings are for people."""
    return int(any(check.status is Status.FAIL for check in checks))


def to_json(checks: Sequence[Check]) -> dict[str, Any]:
    """The findings as one document."""
    return {
        "ok": exit_status(checks) == 0,
        "checks": [
            {
                "name": check.name,
                "status": check.status.value,
                "found": safe(check.found),
                "why": check.why,
                "fix": safe(check.fix, None),
                "code": check.code,
            }
            for check in checks
        ],
    }


def text_lines(checks: Sequence[Check]) -> list[str]:
    """The findings as lines for a terminal: reasons and fixes only where something is wrong, a summary at the end."""
    width = max((len(check.name) for check in checks), default=0)
    lines: list[str] = []
    for check in checks:
        code = f" [{check.code}]" if check.code else ""
        lines.append(f"{_MARKS[check.status]}  {check.name:<{width}}  {safe(check.found)}{code}")
        if check.status is not Status.OK:
            indent = " " * (width + 8)
            lines += [
                f"{indent}{part}" for part in (check.why, f"→ {safe(check.fix, None)}" if check.fix else "") if part
            ]
    failed = sum(check.status is Status.FAIL for check in checks)
    warned = sum(check.status is Status.WARN for check in checks)
    lines.append("")
    lines.append(f"{len(checks) - failed - warned} fine, {warned} to look at, {failed} failed")
    return lines


def safe(text: str, longest: int | None = 1000) -> str:
    """One line that other programs' output cannot use to move the cursor, cut at this length."""
    flat = "".join(char if char.isprintable() else " " for char in text).strip()
    return flat if longest is None or len(flat) <= longest else flat[: longest - 1] + "…"
