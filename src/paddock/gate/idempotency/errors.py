"""Errors for callers whose idempotency key is taken, or whose call has an unknown outcome."""

from __future__ import annotations

from types import MappingProxyType

from paddock.core.errors import Busy, Conflict, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.printable import printable
from paddock.gate.idempotency.records import STALE_CODE, EffectKey, IdempotencyRecord
from paddock.plugins.manage.repair_text import tenant_option

_NOT_REPEATED_CODES = ("call.cancelled", "call.in_progress_too_long")  # codes of errors that are defined a layer above

IN_DOUBT = "in_doubt"
"""Value of the error detail `effect` when the effect may have happened."""


def other_payload_error(effect_key: EffectKey, call: CallId) -> Conflict:
    """Build the error for a key that was first used with another payload; `call` is the call that used it."""
    return Conflict(
        f"the key {printable(effect_key.key, 100)!r} stands for another call of"
        f" {effect_key.plugin} {effect_key.callable}: {call}",
        code="effect.other_payload",
        hint=f"give each thing that is to happen a key of its own; what that one was: paddock explain {call}"
        f"{tenant_option(effect_key.tenant)}",
        details={"plugin": effect_key.plugin, "call_id": call},
    )


def other_principal_error(effect_key: EffectKey) -> Conflict:
    """Build the error for a key of another principal, who alone gets its result."""
    return Conflict(
        f"the key {printable(effect_key.key, 100)!r} of {effect_key.plugin} {effect_key.callable} is somebody else's",
        code="effect.other_principal",
        hint="a key belongs to whoever used it first: take one that nobody else would, such as a UUID",
        details={"plugin": effect_key.plugin},
    )


def underway_error(effect_key: EffectKey) -> Busy:
    """Build the error for a call that another daemon runs for longer than callers wait here."""
    return Busy(
        "the same call is under way elsewhere",
        code="effect.underway",
        hint="ask again with the same key in a moment: it will not be made twice",
        details={"plugin": effect_key.plugin},
    )


def in_doubt_error(effect: IdempotencyRecord) -> Conflict:
    """Build the error for an effect in doubt, which is not repeated until its outcome is known."""
    reason = (effect.error or {}).get("message", "its host went down")
    return Conflict(
        f"{effect.effect_key.plugin} {effect.effect_key.callable} may have happened already:"
        f" {printable(str(reason), 300)}",
        code="effect.in_doubt",
        hint=_recovery_hint(effect.call, effect.effect_key.tenant, automatic=recovers_automatically(effect)),
        details={"plugin": effect.effect_key.plugin, "call_id": effect.call, "effect": IN_DOUBT},
    )


def with_unknown_outcome(error: PaddockError, effect: IdempotencyRecord) -> PaddockError:
    """Copy the error of a failed call for its caller, adding that the effect may have happened anyway."""
    return with_unknown_outcome_of(error, effect.call, effect.effect_key.tenant, effect.recovery)


def with_unknown_outcome_of(error: PaddockError, call: CallId, tenant: Tenant, recovery: str) -> PaddockError:
    """Copy an error with the unknown outcome added, for a call whose record is not loaded."""
    recovery_hint = _recovery_hint(call, tenant, automatic=_recovers_automatically(recovery, error.error_code))
    copy = type(error).__new__(
        type(error)
    )  # a copy that skips __init__, whose arguments vary by class; others may hold the original
    copy.args = error.args
    copy.__dict__.update(
        error.__dict__,
        hint=f"it may have happened; {recovery_hint}" + (f"; {error.hint}" if error.hint else ""),
        details=MappingProxyType({**error.details, "call_id": call, "effect": IN_DOUBT}),
        retryable=False,
    )
    return copy


def superseded_error(effect: IdempotencyRecord) -> Conflict:
    """Build the error for a call whose host was taken for dead meanwhile; other hosts now recover the effect."""
    return Conflict(
        f"{effect.effect_key.plugin} {effect.effect_key.callable} may have happened:"
        " its host was taken for dead meanwhile",
        code=STALE_CODE,
        hint=f"ask again with the same key, or {_recovery_hint(effect.call, effect.effect_key.tenant)}",
        details={"plugin": effect.effect_key.plugin, "call_id": effect.call, "effect": IN_DOUBT},
    )


def reports_unknown_outcome(error: PaddockError | None, call: CallId) -> bool:
    """Whether an error says that the outcome of exactly this call is unknown."""
    return error is not None and error.details.get("effect") == IN_DOUBT and error.details.get("call_id") == call


def recovers_automatically(effect: IdempotencyRecord) -> bool:
    """Whether a host recovers this effect in doubt without a person, as far as its record tells."""
    return _recovers_automatically(effect.recovery, (effect.error or {}).get("code"))


def _recovers_automatically(recovery: str, code: str | None) -> bool:
    return recovery != "none" and not (recovery == "native_key" and code in _NOT_REPEATED_CODES)


def _recovery_hint(call: CallId, tenant: Tenant, *, automatic: bool = False) -> str:
    show_command = f"paddock call unresolved show {call}{tenant_option(tenant)}"
    if not automatic:
        return f"look whether it has, and say so: {show_command}"
    return (
        f"a daemon finds out by itself (paddock serve): ask again with the same key in a moment, or see {show_command}"
    )


def result_expired_error(effect_key: EffectKey) -> Conflict:
    """Build the error for an effect that has happened and whose result is no longer stored."""
    return Conflict(
        f"{effect_key.plugin} {effect_key.callable} was done under this key a while ago,"
        " and its result is not kept any more",
        code="effect.forgotten",
        hint="it is not made again; give another key if it is to happen once more",
        details={"plugin": effect_key.plugin},
    )


def unrecorded_error(call: CallId, plugin: str, failure: PaddockError, *, happened: bool) -> StoreUnavailable:
    """Build the error for an outcome that cannot be recorded.

    No success is reported to a caller that the next host would not know of.
    """
    subject = "the call has happened, and that" if happened else "what became of the call"
    return StoreUnavailable(
        f"{subject} cannot be recorded: {failure.message}",
        code="effect.unrecorded",
        hint="do not make it again: once there is room, paddock explain tells what became of it",
        details={"plugin": plugin, "call_id": call},
    )
