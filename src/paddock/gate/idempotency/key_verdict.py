"""Decides what a repeated idempotency key means: replay, join, conflict or new. Pure.

A key is a conflict if another principal used it first, or if it was used with another payload. `records.claim` has the
same rule in SQL, for a key that another host claims at the same time.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from paddock.core.errors import Invalid, Problem
from paddock.gate.idempotency.states import EffectState


class KeyRecord(Struct, frozen=True):
    """The part of an idempotency record that decides about a further call with the same key."""

    state: EffectState
    payload_hash: str
    forgotten: bool = False  # its result has expired
    principal: str | None = None  # who used the key first; None after that person was erased


class KeyFree(Struct, frozen=True):
    """The caller may use the key: it is unused, or its earlier call had no effect."""


class KeyInUse(Struct, frozen=True):
    """The same call is in progress or waits for approval: both callers get its outcome."""


class KeySucceeded(Struct, frozen=True):
    """The effect has happened: the caller gets the stored result."""


class KeyOtherPayload(Struct, frozen=True):
    """The key was used with another payload."""


class KeyOtherPrincipal(Struct, frozen=True):
    """The key belongs to another principal, who alone gets its result."""


class KeyInDoubt(Struct, frozen=True):
    """The effect may have happened, and is not repeated before that is known."""


class KeyExpired(Struct, frozen=True):
    """The effect has happened and its result is no longer stored. It is not repeated."""


KeyVerdict: TypeAlias = (
    KeyFree | KeyInUse | KeySucceeded | KeyOtherPayload | KeyOtherPrincipal | KeyInDoubt | KeyExpired
)


def key_verdict(record: KeyRecord | None, payload_hash: str, principal: str | None = None) -> KeyVerdict:
    """Decide what a caller with this key and payload gets.

    One key identifies one effect for all principals; only the principal who used it first gets the result.
    """
    if record is None:
        return KeyFree()
    if (conflict := key_conflict(record.payload_hash, record.principal, payload_hash, principal)) is not None:
        return conflict
    match record.state:
        case EffectState.CLAIMED | EffectState.AWAITING_APPROVAL | EffectState.STARTED:
            return KeyInUse()
        case EffectState.SUCCEEDED:
            return KeySucceeded() if record.principal == principal and not record.forgotten else KeyExpired()
        case EffectState.FAILED_NO_EFFECT:
            return KeyFree()
        case EffectState.IN_DOUBT:
            return KeyInDoubt()


def key_conflict(
    first_payload_hash: str, first_principal: str | None, payload_hash: str, principal: str | None
) -> KeyOtherPrincipal | KeyOtherPayload | None:
    """Compare a call with the call that used its key first; None if it is the same call of the same principal.

    The first principal is None after that person was erased.
    """
    if first_principal not in (None, principal):
        return KeyOtherPrincipal()
    return KeyOtherPayload() if first_payload_hash != payload_hash else None


MAX_KEY_CHARS = 255
_CALL_ID_PREFIX = "call_"  # a call without a key uses its own id as the key


def validate_idempotency_key(text: str) -> str:
    """Return the key if it is valid.

    Raises:
        Invalid: it is not.
    """
    if not text or len(text) > MAX_KEY_CHARS or not text.isascii() or not text.isprintable():
        problem, hint = f"is not 1 to {MAX_KEY_CHARS} printable characters of ASCII", "a UUID is a good one"
    elif text.startswith(_CALL_ID_PREFIX):
        problem, hint = f"begins with {_CALL_ID_PREFIX}, as the ids of calls do", "begin it with something else"
    else:
        return text
    raise Invalid(
        "the idempotency key is not valid",
        [Problem("idempotency_key", problem, hint, "wrong_value")],
        code="invalid_params",
    )
