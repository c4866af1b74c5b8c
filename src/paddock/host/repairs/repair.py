"""One repair: a problem, what it means, and the options to fix it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct


class Severity(StrEnum):
    """How severe a repair is, most severe first."""

    URGENT = "urgent"  # calls are rejected, or recorded data is in danger
    BROKEN = "broken"  # something does not work until a person acts
    NOTICE = "notice"  # it works, but not for ever, or less well than it could


class RepairButton(Struct, frozen=True):
    """An action that the host performs when a person presses a button.

    Attributes:
        action: The name of the action; see `repair_actions.py`.
        words: The label of the button.
        asks: The confirmation question; empty if none is needed.
        host_only: Whether only operators of the host may press it: plugins are installed for all tenants.
    """

    action: str
    words: str
    asks: str = ""
    host_only: bool = False


class RepairLink(Struct, frozen=True):
    """A link to a page where a person decides; `host_only` as of `RepairButton`."""

    path: str
    words: str
    host_only: bool = False


class RepairCommand(Struct, frozen=True):
    """A shell command to run on the machine."""

    command: str
    words: str = "On the machine, type:"


RepairOption: TypeAlias = RepairButton | RepairLink | RepairCommand


class Repair(Struct, frozen=True):
    """One problem that a person has to act on.

    Attributes:
        kind: The kind of problem, as in `plugin.modified`.
        subject: What it is about, as a plugin's name; empty for the host as a whole.
        title: The problem in a few words.
        cause: The exact finding; parts of it may be text of plugins or receivers.
        meaning: What it means for users of the host.
        ways: The options to fix it, the best first.
        cause_key: Distinguishes this cause from others of the same kind; the cause itself if empty. A cause that
            contains a count has one, so that a changed count alone is not reported as a new cause.
        since: When it began, as far as that is known; otherwise when the daemon noticed it.
    """

    kind: str
    subject: str
    severity: Severity
    title: str
    cause: str
    meaning: str
    ways: tuple[RepairOption, ...] = ()
    cause_key: str = ""
    since: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.subject}"

    @property
    def fingerprint(self) -> str:
        """Identifies the cause: an ignored repair is reported again once its cause is another."""
        identity = "\0".join((self.kind, self.subject, self.severity, self.cause_key or self.cause))
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def find_button(self, action: str) -> RepairButton | None:
        """Return the button of this action, if the repair has one."""
        return next(
            (option for option in self.ways if isinstance(option, RepairButton) and option.action == action), None
        )


_SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}


def sort_by_severity(repairs: Iterable[Repair]) -> list[Repair]:
    """Sort repairs by severity, the most severe first."""
    return sorted(repairs, key=lambda repair: (_SEVERITY_RANK[repair.severity], repair.kind, repair.subject))
