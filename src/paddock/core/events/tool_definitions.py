"""Audit events of the definitions that servers publish, and of people who accept them."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.core.events.event import Event, event


@event("plugin.definitions_trusted")
class PluginDefinitionsTrusted(Event):
    """A server said for the first time what it offers, and that is trusted; `kept_back` hid text or cannot be used."""

    name: str
    accepted: int
    kept_back: int


@event("plugin.definition_changed")
class PluginDefinitionChanged(Event):
    """What a server says of one thing it offers is not what was on record; `standing` is what came of that."""

    name: str
    kind: str
    definition: str
    standing: str
    reason: str
    old_hash: str | None
    new_hash: str | None
    difference: str


@event("plugin.definition_accepted")
class PluginDefinitionAccepted(Event):
    """A person accepted what a server says now of one thing it offers."""

    name: str
    kind: str
    definition: str
    old_hash: str | None
    new_hash: str
    accepted_by: str


@event("plugin.definitions_left_out")
class PluginDefinitionsLeftOut(Event):
    """A server lists more than is kept of one; the rest of it cannot be used."""

    name: str
    kept: int
    left_out: int


@dataclass(frozen=True, slots=True)
class SuspiciousTextHint:
    """A suspicious text in one definition: which definition, which flag, where it is, the text itself, and why."""

    kind: str
    definition: str
    flag: str
    where: str
    words: str
    why: str


@event("plugin.flagged")
class PluginFlagged(Event):
    """Words of a plugin are odd when it is installed, upgraded or met, or when they changed: hints, and no verdict."""

    name: str
    occasion: str
    flags: tuple[str, ...]
    hints: tuple[SuspiciousTextHint, ...]
