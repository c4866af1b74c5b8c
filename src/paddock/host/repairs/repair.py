"""One thing that somebody has to see to: what is wrong, what that means, and what can be done about it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Severity(StrEnum):
    """How bad it is; the worst comes first."""

    URGENT = "urgent"  # calls are refused, or what was recorded is in danger
    BROKEN = "broken"  # something does not work until somebody sees to it
    NOTICE = "notice"  # it works, and will not for ever, or less well than it could


@dataclass(frozen=True, slots=True)
class RepairButton:
    """Something that the host does when somebody asks for it.

    Attributes:
        action: Which; see `mending.py`.
        words: What its button says.
        asks: What somebody is asked before; empty where they need not be.
        host_only: Whether it is for whoever operates the host alone: plugins are installed for all tenants.
    """

    action: str
    words: str
    asks: str = ""
    host_only: bool = False


@dataclass(frozen=True, slots=True)
class RepairLink:
    """Another page, where somebody decides."""

    path: str
    words: str


@dataclass(frozen=True, slots=True)
class RepairCommand:
    """What only a shell on the machine can do."""

    command: str
    words: str = "On the machine, type:"


RepairOption: TypeAlias = RepairButton | RepairLink | RepairCommand


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing to see to.

    Attributes:
        kind: What sort of thing, as in `plugin.modified`.
        subject: What it is about, as a plugin's name; empty for the host as a whole.
        title: What is wrong, in a few words.
        cause: What was found, exactly; others may have written parts of it.
        meaning: What it means for whoever uses the host.
        ways: What can be done, the best first.
        mark: What tells this cause from another one of the same kind; the cause itself where it is empty. A cause that
            counts something has one, so that not every change of the count is news.
    """

    kind: str
    subject: str
    severity: Severity
    title: str
    cause: str
    meaning: str
    ways: tuple[RepairOption, ...] = ()
    mark: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.subject}"

    @property
    def fingerprint(self) -> str:
        """Of its cause: whoever ignores a repair ignores this one, and hears of it again once it is another."""
        told = "\0".join((self.kind, self.subject, self.severity, self.mark or self.cause))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def find_button(self, action: str) -> RepairButton | None:
        """The button of this action, where it has one."""
        return next((way for way in self.ways if isinstance(way, RepairButton) and way.action == action), None)


_SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}


def sort_by_severity(repairs: Iterable[Repair]) -> list[Repair]:
    """In the order in which somebody sees to them."""
    return sorted(repairs, key=lambda one: (_SEVERITY_RANK[one.severity], one.kind, one.subject))
