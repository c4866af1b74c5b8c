"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check by its name, how it came out, and why."""

    check: str
    verdict: Verdict
    why: str = ""
    hint: str = ""

    def to_value(self) -> dict[str, Any]:
        return {"check": self.check, "verdict": self.verdict.value, "why": self.why, "hint": self.hint}


def passed(check: str, why: str = "") -> Finding:
    return Finding(check, Verdict.PASS, why)


def failed(check: str, why: str, hint: str = "") -> Finding:
    return Finding(check, Verdict.FAIL, why, hint)


def skipped(check: str, why: str, hint: str = "") -> Finding:
    return Finding(check, Verdict.SKIP, why, hint)
