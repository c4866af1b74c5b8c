"""Effects: the closed list of what a callable may change, and the aliases that other dialects use."""

from __future__ import annotations

from enum import StrEnum


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
