"""Effects: the closed list of what a callable may change, aliases of other dialects, their risk, and claims. Pure.

A claim is what the annotations of a tool say that it does. It is unverified: it is shown, and may only make a check
stricter. A person may take a server's word that a tool only reads; see `plugins/tool_pinning/tool_trust.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final


class Effect(StrEnum):
    """A kind of change that a callable may make besides returning a result."""

    READ_ONLY = "read_only"
    PRODUCE_OUTCOME = "produce_outcome"
    DB_WRITE = "db_write"
    EXTERNAL_SEND = "external_send"
    EXTERNAL_CALL = "external_call"
    WEBHOOK_EMIT = "webhook_emit"
    TEMP_WRITE = "temp_write"
    FINAL_WRITE = "final_write"
    MEMORY_WRITE = "memory_write"
    UNKNOWN = "unknown"


EFFECT_ALIASES = {
    "gmail_send": Effect.EXTERNAL_SEND,
    "email_send": Effect.EXTERNAL_SEND,
    "s3_final_write": Effect.FINAL_WRITE,
    "s3_temp_write": Effect.TEMP_WRITE,
    "none": Effect.READ_ONLY,
}

HARMLESS_EFFECTS = frozenset({Effect.READ_ONLY})

EFFECT_TEXT = {
    Effect.READ_ONLY: "reads and answers, changes nothing",
    Effect.PRODUCE_OUTCOME: "records an outcome",
    Effect.DB_WRITE: "writes to a database",
    Effect.EXTERNAL_SEND: "sends messages to the outside",
    Effect.EXTERNAL_CALL: "calls outside services",
    Effect.WEBHOOK_EMIT: "triggers webhooks",
    Effect.TEMP_WRITE: "writes temporary files",
    Effect.FINAL_WRITE: "writes final documents",
    Effect.MEMORY_WRITE: "changes what the assistant remembers about you",
    Effect.UNKNOWN: "says nothing about what it changes, so take it as able to change anything",
}


def parse_effect(text: str) -> Effect | None:
    """Return the effect for a name or alias; None if it is unknown."""
    try:
        return Effect(text)
    except ValueError:
        return EFFECT_ALIASES.get(text)


def effect_words() -> list[str]:
    """Return every name that `parse_effect` accepts, for error messages."""
    return [effect.value for effect in Effect] + sorted(EFFECT_ALIASES)


class Claim(StrEnum):
    """What a tool says of its effect."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    DELETES = "deletes"
    NOTHING = "nothing"


CLAIM_TEXT: Final = {
    Claim.READS: "says it only reads (unverified)",
    Claim.ADDS: "says it changes things and deletes nothing (unverified)",
    Claim.CHANGES: "says it changes things",
    Claim.DELETES: "says it deletes",
    Claim.NOTHING: EFFECT_TEXT[Effect.UNKNOWN],
}
TRUSTED_READ_TEXT: Final = "only reads, as it says itself and a person trusts it to"
# Claims that contradict a tool that only reads.
CHANGING_CLAIMS: Final = frozenset({Claim.ADDS, Claim.CHANGES, Claim.DELETES})


def claimed_hint(annotations: Mapping[str, Any], name: str) -> bool | None:
    """Return a hint of the protocol, such as `readOnlyHint`; None if it is absent or no boolean."""
    value = annotations.get(name)
    return value if isinstance(value, bool) else None


def claim_of(annotations: Mapping[str, Any]) -> Claim:
    """Return what annotations say. Where they contradict each other, the stricter one counts."""
    if not annotations:
        return Claim.NOTHING
    reads, deletes = claimed_hint(annotations, "readOnlyHint"), claimed_hint(annotations, "destructiveHint")
    if deletes is True:
        return Claim.DELETES
    if reads is True:
        return Claim.READS
    if deletes is False:
        return Claim.ADDS
    return Claim.CHANGES if reads is False else Claim.NOTHING


def effect_texts(effects: Iterable[str], claim: Claim, *, trusted: bool = False) -> list[str]:
    """Describe effects to people; where they are unknown, with what the tool says of itself.

    `trusted` says that it counts as read-only because a person takes its word for that.
    """
    if trusted:
        return [TRUSTED_READ_TEXT]
    known = [Effect(effect) for effect in effects]
    texts = [CLAIM_TEXT[claim] if effect is Effect.UNKNOWN else EFFECT_TEXT[effect] for effect in known]
    return [*texts, CLAIM_TEXT[claim]] if claim is Claim.DELETES and Effect.UNKNOWN not in known else texts


def waiting_text(does: Iterable[str], reason: str) -> str:
    """Say why a call waits for a person: first its `effect_texts`, then why the rules ask."""
    effects = "; ".join(does)
    return f"it {effects}. {reason}" if effects else reason


class Risk(StrEnum):
    """How dangerous something is, the most dangerous first."""

    DANGER = "danger"  # it leaves this machine and cannot be undone
    WARNING = "warning"  # it changes something, or may
    NOTICE = "notice"  # it changes nothing that lasts

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS: Final = {risk: rank for rank, risk in enumerate(Risk)}
_EFFECTS_OF_DANGER: Final = frozenset({Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT})
_EFFECTS_OF_NOTICE: Final = frozenset({Effect.READ_ONLY, Effect.TEMP_WRITE, Effect.PRODUCE_OUTCOME})
LEAVING_EFFECTS: Final = frozenset({Effect.EXTERNAL_SEND, Effect.EXTERNAL_CALL, Effect.WEBHOOK_EMIT})
"""Effects by which data leaves this machine."""


def risk_of_effects(effects: Iterable[str]) -> Risk:
    """Return the risk of a callable with these effects. Unknown ones, and none at all, count as a change."""
    known = {parse_effect(effect) for effect in effects}
    if not known.isdisjoint(_EFFECTS_OF_DANGER):
        return Risk.DANGER
    return Risk.NOTICE if known and known <= _EFFECTS_OF_NOTICE else Risk.WARNING


def risk_of_rank(rank: int) -> Risk:
    """Return the risk of a stored rank."""
    return tuple(Risk)[rank]
