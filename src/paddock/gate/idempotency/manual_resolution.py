"""Manual resolution of effects in doubt, in one transaction with the ledger entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import orjson

from paddock.core.action import Action
from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.calls import EffectResolved
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.store.transaction import Transaction

_STATE_TEXT = {EffectState.SUCCEEDED: "it has happened", EffectState.FAILED_NO_EFFECT: "it has not happened"}
MAX_COMMENT_CHARS = 1_000
HUMAN_NOT_HAPPENED = {"code": "effect.not_happened", "message": "somebody looked, and it has not happened"}


def require_record(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord:
    """Return the idempotency record of a call.

    Raises:
        NotFound: the call had none, or there is no such call.
    """
    found = records.find_by_call(tx, tenant, call)
    if found is None:
        raise NotFound(
            f"there is no idempotency record of a call {printable(call, 100)!r}",
            code="effect.not_found",
            action=Action.of("call.unresolved.list", tenant=tenant),
        )
    return found


def require_in_doubt(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord:
    """Return the record of a call whose effect is in doubt.

    Raises:
        NotFound: there is no such effect.
        Conflict: it is not in doubt.
    """
    effect = require_record(tx, tenant, call)
    if effect.state is not EffectState.IN_DOUBT:
        name = f"{effect.effect_key.plugin} {effect.effect_key.callable}"
        raise Conflict(
            f"the outcome of {name} is not unknown: {_STATE_TEXT.get(effect.state, 'it is running')}",
            code="effect.not_in_doubt",
            action=Action.of("call.unresolved.show", call=call, tenant=tenant),
            details={"call_id": call, "state": effect.state.value},
        )
    return effect


def resolve(
    tx: Transaction,
    publish: EventSink,
    tenant: Tenant,
    call: str,
    *,
    happened: bool,
    result: Any,
    resolved_by: str,
    now: str,
    comment: str = "",
) -> IdempotencyRecord:
    """Record the outcome that a person found out. A caller with the same key gets that result, or may try again.

    Args:
        tx: The transaction.
        publish: Receives the ledger event, and knows the call that it belongs to.
        tenant: The tenant of the call.
        call: The call.
        happened: Whether its effect has happened.
        result: Its result, if it has happened.
        resolved_by: The person who says so.
        now: The time.
        comment: How the person knows.

    Raises:
        NotFound: there is no such effect.
        Conflict: it is not in doubt.
    """
    effect = require_in_doubt(tx, tenant, call)
    if happened:
        records.mark_succeeded(
            tx, effect, now=now, result=orjson.dumps(result), resolution=Resolution.HUMAN, resolved_by=resolved_by
        )
    else:
        records.mark_failed(
            tx, effect, now=now, error=HUMAN_NOT_HAPPENED, resolution=Resolution.HUMAN, resolved_by=resolved_by
        )
    state = EffectState.SUCCEEDED if happened else EffectState.FAILED_NO_EFFECT
    digest = hash_of(result) if happened else None
    effect_key, reason = effect.effect_key, printable(comment, MAX_COMMENT_CHARS) or None
    publish.publish(
        EffectResolved(
            effect_key.plugin, effect_key.callable, state.value, Resolution.HUMAN.value, resolved_by, digest, reason
        )
    )
    return require_record(tx, tenant, call)


class EffectJson(TypedDict):
    """The effect of a call, as it is recorded under its idempotency key."""

    call_id: str
    plugin: str
    callable: str
    key: Annotated[str, "Its idempotency key."]
    state: EffectState
    claimed_at: DateTime
    started_at: DateTime | None
    ended_at: DateTime | None
    principal: str | None
    recovery: Annotated[str, "How the host recovers the outcome by itself: `atomic`, `native_key`, `probe` or `none`."]
    params: Annotated[Mapping[str, Any] | None, "Null if they were erased."]
    error: Mapping[str, Any] | None
    resolution: Annotated[Resolution | None, "How the outcome was found out."]
    resolved_by: str | None
    result: Any


def record_json(effect: IdempotencyRecord) -> EffectJson:
    """Convert a record to JSON data."""
    return {
        "call_id": effect.call,
        "plugin": effect.effect_key.plugin,
        "callable": effect.effect_key.callable,
        "key": effect.effect_key.key,
        "state": effect.state,
        "claimed_at": effect.claimed_at,
        "started_at": effect.started_at,
        "ended_at": effect.ended_at,
        "principal": effect.principal,
        "recovery": effect.recovery,
        "params": effect.payload,
        "error": effect.error,
        "resolution": effect.resolution,
        "resolved_by": effect.resolved_by,
        "result": None if effect.result is None else orjson.loads(effect.result),
    }
