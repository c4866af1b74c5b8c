"""What callers are told whose key is not free, or whose effect nobody can vouch for."""

from __future__ import annotations

from types import MappingProxyType

from paddock.core.errors import Busy, Conflict, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.printable import printable
from paddock.gate.idempotency.records import STALE_CODE, EffectKey, IdempotencyRecord
from paddock.plugins.manage.repair_text import tenant_option

_NOT_REPEATED_CODES = ("call.cancelled", "call.in_progress_too_long")  # of errors that are a layer above

IN_DOUBT = "in_doubt"
"""What the detail `effect` of an error says: it may have happened."""


def other_payload_error(of: EffectKey, call: CallId) -> Conflict:
    """The key stands for another payload, which this call came with first."""
    return Conflict(
        f"the key {printable(of.key, 100)!r} stands for another call of {of.plugin} {of.callable}: {call}",
        code="effect.other_payload",
        hint=f"give each thing that is to happen a key of its own; what that one was: paddock explain {call}"
        f"{tenant_option(of.tenant)}",
        details={"plugin": of.plugin, "call_id": call},
    )


def other_principal_error(of: EffectKey) -> Conflict:
    """The key is another principal's, who alone gets what came of it."""
    return Conflict(
        f"the key {printable(of.key, 100)!r} of {of.plugin} {of.callable} is somebody else's",
        code="effect.other_principal",
        hint="a key belongs to whoever used it first: take one that nobody else would, such as a UUID",
        details={"plugin": of.plugin},
    )


def underway_error(of: EffectKey) -> Busy:
    """Another daemon makes it, for longer than anybody waits here."""
    return Busy(
        "the same call is under way elsewhere",
        code="effect.underway",
        hint="ask again with the same key in a moment: it will not be made twice",
        details={"plugin": of.plugin},
    )


def in_doubt_error(effect: IdempotencyRecord) -> Conflict:
    """It may have happened: nobody makes it again before that is known."""
    why = (effect.error or {}).get("message", "its host went down")
    return Conflict(
        f"{effect.effect_key.plugin} {effect.effect_key.callable} may have happened already:"
        f" {printable(str(why), 300)}",
        code="effect.in_doubt",
        hint=_recovery_hint(effect.call, effect.effect_key.tenant, by_itself=recovers_automatically(effect)),
        details={"plugin": effect.effect_key.plugin, "call_id": effect.call, "effect": IN_DOUBT},
    )


def with_unknown_outcome(error: PaddockError, effect: IdempotencyRecord) -> PaddockError:
    """What a call failed with, for whoever made it: nobody knows whether it has happened all the same."""
    return with_unknown_outcome_of(error, effect.call, effect.effect_key.tenant, effect.recovery)


def with_unknown_outcome_of(error: PaddockError, call: CallId, tenant: Tenant, recovery: str) -> PaddockError:
    """The same for a call whose record is not at hand."""
    look = _recovery_hint(call, tenant, by_itself=_recovers_automatically(recovery, error.error_code))
    told = type(error).__new__(type(error))  # a copy, whatever its class is made with: others may be told the same one
    told.args = error.args
    told.__dict__.update(
        error.__dict__,
        hint=f"it may have happened; {look}" + (f"; {error.hint}" if error.hint else ""),
        details=MappingProxyType({**error.details, "call_id": call, "effect": IN_DOUBT}),
        retryable=False,
    )
    return told


def superseded_error(effect: IdempotencyRecord) -> Conflict:
    """Others took this host for dead while it made the call, and see to it themselves."""
    return Conflict(
        f"{effect.effect_key.plugin} {effect.effect_key.callable} may have happened:"
        " its host was taken for dead meanwhile",
        code=STALE_CODE,
        hint=f"ask again with the same key, or {_recovery_hint(effect.call, effect.effect_key.tenant)}",
        details={"plugin": effect.effect_key.plugin, "call_id": effect.call, "effect": IN_DOUBT},
    )


def reports_unknown_outcome(error: PaddockError | None, call: CallId) -> bool:
    """Whether an error says that nobody knows whether this very call has happened."""
    return error is not None and error.details.get("effect") == IN_DOUBT and error.details.get("call_id") == call


def recovers_automatically(effect: IdempotencyRecord) -> bool:
    """Whether a host finds out by itself what became of an effect in doubt, as far as its record tells."""
    return _recovers_automatically(effect.recovery, (effect.error or {}).get("code"))


def _recovers_automatically(recovery: str, code: str | None) -> bool:
    return recovery != "none" and not (recovery == "native_key" and code in _NOT_REPEATED_CODES)


def _recovery_hint(call: CallId, tenant: Tenant, *, by_itself: bool = False) -> str:
    show = f"paddock run doubt show {call}{tenant_option(tenant)}"
    if not by_itself:
        return f"look whether it has, and say so: {show}"
    return f"a daemon finds out by itself (paddock serve): ask again with the same key in a moment, or see {show}"


def result_expired_error(of: EffectKey) -> Conflict:
    """It has happened, and what came of it is not kept any more."""
    return Conflict(
        f"{of.plugin} {of.callable} was done under this key a while ago, and its result is not kept any more",
        code="effect.forgotten",
        hint="it is not made again; give another key if it is to happen once more",
        details={"plugin": of.plugin},
    )


def unrecorded_error(call: CallId, plugin: str, failure: PaddockError, *, happened: bool) -> StoreUnavailable:
    """What became of a call cannot be recorded. Nobody is told of a success that the next host would not know of."""
    what = "the call has happened, and that" if happened else "what became of the call"
    return StoreUnavailable(
        f"{what} cannot be recorded: {failure.message}",
        code="effect.unrecorded",
        hint="do not make it again: once there is room, paddock explain tells what became of it",
        details={"plugin": plugin, "call_id": call},
    )
