"""Audit events of the definitions that servers publish, and of people who accept them."""

from __future__ import annotations

from msgspec import Struct

from paddock.core.events.event import Event, event


@event("plugin.definitions_trusted")
class PluginDefinitionsTrusted(Event, frozen=True):
    """The first definitions of a server were accepted; `kept_back` of them contain hidden text or cannot be used."""

    name: str
    accepted: int
    kept_back: int


@event("plugin.definition_changed")
class PluginDefinitionChanged(Event, frozen=True):
    """A definition of a server differs from the accepted one; `standing` is its new status."""

    name: str
    kind: str
    definition: str
    standing: str
    reason: str
    old_hash: str | None
    new_hash: str | None
    difference: str


@event("plugin.definition_accepted")
class PluginDefinitionAccepted(Event, frozen=True):
    """A person accepted the current definition of a server."""

    name: str
    kind: str
    definition: str
    old_hash: str | None
    new_hash: str
    accepted_by: str


@event("plugin.claims_trusted")
class PluginClaimsTrusted(Event, frozen=True):
    """A person takes a version's word for some of its tools: `reads`, that they only read, or `errors`, that their
    errors mean that nothing was done."""

    name: str
    version: str
    digest: str
    word: str
    tools: tuple[str, ...]


@event("plugin.claims_distrusted")
class PluginClaimsDistrusted(Event, frozen=True):
    """A person no longer takes a plugin's word for some of its tools."""

    name: str
    word: str
    tools: tuple[str, ...]


@event("plugin.definitions_left_out")
class PluginDefinitionsLeftOut(Event, frozen=True):
    """A server lists more definitions than the host stores; the rest cannot be used."""

    name: str
    kept: int
    left_out: int


class SuspiciousTextHint(Struct, frozen=True):
    """A suspicious text in one definition: which definition, which flag, where it is, the text itself, and why."""

    kind: str
    definition: str
    flag: str
    where: str
    words: str
    why: str


@event("plugin.flagged")
class PluginFlagged(Event, frozen=True):
    """Texts of a plugin look suspicious: found at its installation, upgrade or first run, or after a change."""

    name: str
    occasion: str
    flags: tuple[str, ...]
    hints: tuple[SuspiciousTextHint, ...]
