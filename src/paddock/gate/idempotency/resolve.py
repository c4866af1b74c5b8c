"""A person says what became of an effect that is in doubt: in one unit of work, with the entry that tells of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.calls import EffectResolved
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import RECOVER_JOB, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.plugins.manage.repair_text import tenant_option
from paddock.store.transaction import Transaction

_STATE_TEXT = {EffectState.SUCCEEDED: "it has happened", EffectState.FAILED_NO_EFFECT: "it has not happened"}
MAX_COMMENT_CHARS = 1_000
HUMAN_NOT_HAPPENED = {"code": "effect.not_happened", "message": "somebody looked, and it has not happened"}


def require_record(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord:
    """The effect of a call.

    Raises:
        NotFound: the call had none, or there is no such call.
    """
    found = records.find_by_call(tx, tenant, call)
    if found is None:
        raise NotFound(
            f"no effect of a call {printable(call, 100)!r} is known",
            code="effect.not_found",
            hint=f"paddock run doubt list{tenant_option(tenant)}",
        )
    return found


def require_in_doubt(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord:
    """The effect of a call of which nobody knows whether it has happened.

    Raises:
        NotFound: there is no such effect.
        Conflict: it is not in doubt.
    """
    effect = require_record(tx, tenant, call)
    if effect.state is not EffectState.IN_DOUBT:
        name = f"{effect.effect_key.plugin} {effect.effect_key.callable}"
        raise Conflict(
            f"{name} is not in doubt: {_STATE_TEXT.get(effect.state, 'it is under way')}",
            code="effect.not_in_doubt",
            hint=f"see what is known of it: paddock run doubt show {call}{tenant_option(tenant)}",
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
    by: str,
    now: str,
    comment: str = "",
) -> IdempotencyRecord:
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
    effect = require_in_doubt(tx, tenant, call)
    if happened:
        records.mark_succeeded(tx, effect, now=now, result=orjson.dumps(result), by=Resolution.HUMAN, who=by)
    else:
        records.mark_failed(tx, effect, now=now, error=HUMAN_NOT_HAPPENED, by=Resolution.HUMAN, who=by)
    state = EffectState.SUCCEEDED if happened else EffectState.FAILED_NO_EFFECT
    digest = hash_of(result) if happened else None
    of, why = effect.effect_key, printable(comment, MAX_COMMENT_CHARS) or None
    publish.publish(EffectResolved(of.plugin, of.callable, state.value, Resolution.HUMAN.value, by, digest, why))
    return require_record(tx, tenant, call)


def record_json(effect: IdempotencyRecord) -> dict[str, Any]:
    """An effect as data."""
    return {
        "call_id": effect.call,
        "plugin": effect.effect_key.plugin,
        "callable": effect.effect_key.callable,
        "key": effect.effect_key.key,
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


class InDoubtCount(NamedTuple):
    """Effects in doubt.

    Attributes:
        total: All of them.
        waiting: Those that no host finds out about by itself.
        latest: The call of these that came last; empty where there is none.
    """

    total: int = 0
    waiting: int = 0
    latest: str = ""


_RECOVERY_SCHEDULED_SQL = (
    "recovery <> 'none' AND EXISTS (SELECT 1 FROM queue WHERE queue.tenant = effects.tenant "  # noqa: S608
    f"AND queue.key = effects.call AND queue.kind IN ('{RECOVER_JOB}', '{RECOVER_JOB}:' || effects.node))"
)


def count_in_doubt(tx: Transaction, tenant: Tenant) -> InDoubtCount:
    """Counted by an index that has only what is not over."""
    row = tx.one(
        f"SELECT COUNT(*) AS total, SUM(CASE WHEN {_RECOVERY_SCHEDULED_SQL} THEN 0 ELSE 1 END) AS waiting, "  # noqa: S608
        f"MAX(CASE WHEN {_RECOVERY_SCHEDULED_SQL} THEN '' ELSE call END) AS latest "
        "FROM effects WHERE state = ? AND tenant = ?",
        (EffectState.IN_DOUBT, tenant),
    )
    return InDoubtCount(row["total"], row["waiting"], row["latest"]) if row and row["total"] else InDoubtCount()
