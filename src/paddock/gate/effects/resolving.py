"""A person says what became of an effect that is in doubt: in one unit of work, with the entry that tells of it."""

from __future__ import annotations

from typing import Any

import orjson

from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict, NotFound
from paddock.core.event import Publish
from paddock.core.events_effects import EffectResolved
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.effects import records
from paddock.gate.effects.machine import Resolution, State
from paddock.gate.effects.records import Effect
from paddock.plugins.mending import for_tenant
from paddock.store.transaction import Transaction

_KNOWN = {State.SUCCEEDED: "it has happened", State.FAILED_NO_EFFECT: "it has not happened"}
LONGEST_COMMENT = 1_000
NOT_HAPPENED = {"code": "effect.not_happened", "message": "somebody looked, and it has not happened"}


def require_effect(tx: Transaction, tenant: Tenant, call: str) -> Effect:
    """The effect of a call.

    Raises:
        NotFound: the call had none, or there is no such call.
    """
    found = records.find_call(tx, tenant, call)
    if found is None:
        raise NotFound(
            f"no effect of a call {printable(call, 100)!r} is known",
            code="effect.not_found",
            hint=f"paddock run doubt list{for_tenant(tenant)}",
        )
    return found


def require_doubt(tx: Transaction, tenant: Tenant, call: str) -> Effect:
    """The effect of a call of which nobody knows whether it has happened.

    Raises:
        NotFound: there is no such effect.
        Conflict: it is not in doubt.
    """
    effect = require_effect(tx, tenant, call)
    if effect.state is not State.IN_DOUBT:
        name = f"{effect.of.plugin} {effect.of.callable}"
        raise Conflict(
            f"{name} is not in doubt: {_KNOWN.get(effect.state, 'it is under way')}",
            code="effect.not_in_doubt",
            hint=f"see what is known of it: paddock run doubt show {call}{for_tenant(tenant)}",
            details={"call_id": call, "state": effect.state.value},
        )
    return effect


def resolve(
    tx: Transaction,
    publish: Publish,
    tenant: Tenant,
    call: str,
    *,
    happened: bool,
    result: Any,
    by: str,
    now: str,
    comment: str = "",
) -> Effect:
    """Keep what a person found out. Whoever comes with its key gets that answer, or may make it again.

    Args:
        tx: The unit of work.
        publish: Where the entry goes, with the call that it belongs to.
        tenant: Whose call it is.
        call: The call.
        happened: Whether its effect has happened.
        result: What came of it, where it has.
        by: Who says so.
        now: The time.
        comment: How they know.

    Raises:
        NotFound: there is no such effect.
        Conflict: it is not in doubt.
    """
    effect = require_doubt(tx, tenant, call)
    if happened:
        records.succeed(tx, effect, now=now, result=orjson.dumps(result), by=Resolution.HUMAN, who=by)
    else:
        records.fail(tx, effect, now=now, error=NOT_HAPPENED, by=Resolution.HUMAN, who=by)
    state = State.SUCCEEDED if happened else State.FAILED_NO_EFFECT
    digest = hash_of(result) if happened else None
    of, why = effect.of, printable(comment, LONGEST_COMMENT) or None
    publish.publish(EffectResolved(of.plugin, of.callable, state.value, Resolution.HUMAN.value, by, digest, why))
    return require_effect(tx, tenant, call)


def shown(effect: Effect) -> dict[str, Any]:
    """An effect as data."""
    return {
        "call_id": effect.call,
        "plugin": effect.of.plugin,
        "callable": effect.of.callable,
        "key": effect.of.key,
        "state": effect.state.value,
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
