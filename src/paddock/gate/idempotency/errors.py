"""Errors for callers whose idempotency key is taken, or whose call has an unknown outcome."""

from __future__ import annotations

from paddock.core.action import Action
from paddock.core.errors import Busy, Conflict, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.printable import printable
from paddock.gate.idempotency.records import STALE_CODE, EffectKey, IdempotencyRecord

_NOT_REPEATED_CODES = ("call.cancelled", "call.in_progress_too_long")  # codes of errors that are defined a layer above

IN_DOUBT = "in_doubt"
"""Value of the error detail `effect` when the effect may have happened."""


def other_payload_error(effect_key: EffectKey, call: CallId) -> Conflict:
    """Build the error for a key that was first used with another payload; `call` is the call that used it."""
    return Conflict(
        f"the idempotency key {printable(effect_key.key, 100)!r} was already used for another call of"
        f" {effect_key.plugin} {effect_key.callable}: {call}",
        code="effect.other_payload",
        hint="use a separate idempotency key for each effect",
        action=Action.of("call.explain", call=call, tenant=effect_key.tenant),
        details={"plugin": effect_key.plugin, "call_id": call},
    )


def other_principal_error(effect_key: EffectKey) -> Conflict:
    """Build the error for a key of another principal, who alone gets its result."""
    return Conflict(
        f"the idempotency key {printable(effect_key.key, 100)!r} of {effect_key.plugin} {effect_key.callable}"
        " belongs to another caller",
        code="effect.other_principal",
        hint="an idempotency key belongs to the caller that used it first; use a unique one, such as a UUID",
        details={"plugin": effect_key.plugin},
    )


def underway_error(effect_key: EffectKey) -> Busy:
    """Build the error for a call that another daemon runs for longer than callers wait here."""
    return Busy(
        "the same call is running on another host",
        code="effect.underway",
        hint="repeat it with the same idempotency key in a moment; it does not run twice",
        details={"plugin": effect_key.plugin},
    )


def in_doubt_error(effect: IdempotencyRecord) -> Conflict:
    """Build the error for an effect in doubt, which is not repeated until its outcome is known."""
    reason = (effect.error or {}).get("message", "its host went down")
    return Conflict(
        f"{effect.effect_key.plugin} {effect.effect_key.callable} may have happened already:"
        f" {printable(str(reason), 300)}",
        code="effect.in_doubt",
        hint=_recovery_hint(automatic=recovers_automatically(effect)),
        action=_show_unresolved(effect.call, effect.effect_key.tenant),
        details={"plugin": effect.effect_key.plugin, "call_id": effect.call, "effect": IN_DOUBT},
    )


def with_unknown_outcome(error: PaddockError, effect: IdempotencyRecord) -> PaddockError:
    """Copy the error of a failed call for its caller, adding that the effect may have happened anyway."""
    return with_unknown_outcome_of(error, effect.call, effect.effect_key.tenant, effect.recovery)


def with_unknown_outcome_of(error: PaddockError, call: CallId, tenant: Tenant, recovery: str) -> PaddockError:
    """Copy an error with the unknown outcome added, for a call whose record is not loaded."""
    recovery_hint = _recovery_hint(automatic=_recovers_automatically(recovery, error.error_code))
    return error.with_remedy(
        hint=f"it may have happened; {recovery_hint}" + (f"; {error.hint}" if error.hint else ""),
        action=_show_unresolved(call, tenant),
        details={"call_id": call, "effect": IN_DOUBT},
        retryable=False,
    )


def superseded_error(effect: IdempotencyRecord) -> Conflict:
    """Build the error for a call whose host was taken for dead meanwhile; other hosts now recover the effect."""
    return Conflict(
        f"{effect.effect_key.plugin} {effect.effect_key.callable} may have happened:"
        " another host took it over, because its own was considered dead",
        code=STALE_CODE,
        hint=f"repeat it with the same idempotency key, or {_recovery_hint()}",
        action=_show_unresolved(effect.call, effect.effect_key.tenant),
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


def _recovery_hint(*, automatic: bool = False) -> str:
    if not automatic:
        return "check whether it happened, and record the outcome"
    return "a running daemon determines the outcome; repeat the call with the same idempotency key in a moment"


def _show_unresolved(call: CallId, tenant: Tenant) -> Action:
    return Action.of("call.unresolved.show", call=call, tenant=tenant)


def result_expired_error(effect_key: EffectKey) -> Conflict:
    """Build the error for an effect that has happened and whose result is no longer stored."""
    return Conflict(
        f"{effect_key.plugin} {effect_key.callable} already ran with this idempotency key,"
        " and its result is no longer stored",
        code="effect.forgotten",
        hint="it does not run again; use another idempotency key to run it once more",
        details={"plugin": effect_key.plugin},
    )


def unrecorded_error(call: CallId, plugin: str, failure: PaddockError, *, happened: bool) -> StoreUnavailable:
    """Build the error for an outcome that cannot be recorded.

    No success is reported to a caller that the next host would not know of.
    """
    subject = "the call has happened, and that" if happened else "the outcome of the call"
    return StoreUnavailable(
        f"{subject} cannot be recorded: {failure.message}",
        code="effect.unrecorded",
        hint="do not repeat it; its outcome is shown once the store can be written again",
        action=Action.of("call.explain", call=call),
        details={"plugin": plugin, "call_id": call},
    )
