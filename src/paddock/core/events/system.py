"""Audit events of the host itself: ledger, policy, queue and repairs."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("ledger.erased")
class LedgerErased(Event, frozen=True):
    """Personal data was erased from the entries in these `rows` (from, to); `principal` is who erased it."""

    entries: int
    rows: tuple[tuple[int, int], ...]
    principal: str
    explanation: str


@event("ledger.undescribed")
class EntryUndescribed(Event, frozen=True):
    """An event could not be encoded; the entry's call says where. A fault of the host."""

    reason: str


@event("policy.changed")
class PolicyChanged(Event, frozen=True):
    """The policy rules changed. Recorded in the ledger of the default tenant; rules apply to all tenants."""

    old_version: str
    new_version: str


@event("policy.edited")
class PolicyEdited(Event, frozen=True):
    """A person saved or removed a file of policy rules or of policy tests. Recorded before the file is written.

    If rules changed, `policy.changed` follows.

    `digest` names the file's new text, and `version` the rules with it. `change` is `failed` if the file could not be
    written after all, and is as it was.
    """

    file: str
    change: Literal["added", "changed", "removed", "failed"]
    digest: str | None
    version: str
    by: str


@event("queue.given_up")
class QueueGivenUp(Event, frozen=True):
    """A job failed too often and is not retried; `work` is its id."""

    kind: str
    work: str
    times: int
    error_code: str


@event("repair.ignored")
class RepairIgnored(Event, frozen=True):
    """A person chose to ignore a repair for as long as its cause is the same."""

    repair: str
    by: str


@event("repair.unignored")
class RepairUnignored(Event, frozen=True):
    """A person chose to see an ignored repair again."""

    repair: str
    by: str
