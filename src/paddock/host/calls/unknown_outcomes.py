"""Effects whose outcome is unknown (in doubt): listed, probed and resolved by operators of a tenant."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import Struct

from paddock.core.clock import Clock, Random
from paddock.core.errors import Invalid, NotFound, StoreUnavailable
from paddock.core.ids import PrincipalId, Tenant
from paddock.gate.effects.in_doubt import InDoubtEffects
from paddock.gate.idempotency import record_queries
from paddock.gate.idempotency.errors import recovers_automatically
from paddock.gate.idempotency.manual_resolution import require_in_doubt, require_record, resolve
from paddock.gate.idempotency.record_queries import InDoubtCount, RecoverySchedule, count_in_doubt
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.ledger.write.append import TransactionLedger
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.tools import load_tools
from paddock.queue.node import Node
from paddock.store.database import Database, Transaction


class UnresolvedEffect(Struct, frozen=True):
    """An effect that is or was in doubt, with the state of its recovery.

    Attributes:
        search: The queued recovery job; None if there is none.
        by_itself: Whether the host can recover it without a person, as far as its record tells.
    """

    effect: IdempotencyRecord
    search: RecoverySchedule | None
    by_itself: bool


def require_valid_result(store: PluginStore, record: IdempotencyRecord, result: Any) -> None:
    """Reject a result that violates the callable's output schema. Skipped if the plugin is gone: its schema is unknown.

    Raises:
        Invalid: it violates the output schema; carries every mistake.
    """
    try:
        problems = load_tools(store, record.effect_key.plugin).output_problems(record.effect_key.callable, result)
    except NotFound:
        return
    if problems:
        name = f"{record.effect_key.plugin} {record.effect_key.callable}"
        raise Invalid(f"{name} does not give such a result", problems, code="invalid_params")


class UnknownOutcomes:
    """Lists and resolves effects in doubt.

    Args:
        database: Holds the idempotency records.
        views: The plugin store, for the callables' output schemas.
        in_doubt: Schedules recovery.
        node: Ends dead runs of this home, whose effects are in doubt from then on.
        clock: For timestamps.
        random: For ids.
    """

    def __init__(
        self,
        database: Database,
        views: StoreThread,
        in_doubt: InDoubtEffects,
        node: Node,
        clock: Clock,
        random: Random,
    ) -> None:
        self._database = database
        self._views = views
        self._in_doubt = in_doubt
        self._node = node
        self._clock = clock
        self._random = random

    async def count(self, tenant: Tenant) -> InDoubtCount:
        """Count effects in doubt, and those of them that wait for a person."""
        return await self._database.read(lambda tx: count_in_doubt(tx, tenant))

    async def list_effects(
        self, tenant: Tenant, *, resolved: bool = False, after: str | None = None, limit: int = 50
    ) -> list[UnresolvedEffect]:
        """List effects in doubt, oldest first; or, with `resolved`, those that were, latest first.

        Raises:
            NotFound: `after` is not an effect of the tenant.
        """

        def query(tx: Transaction) -> list[UnresolvedEffect]:
            if after is not None:
                require_record(tx, tenant, after)
            if resolved:
                effects = record_queries.list_resolved(tx, tenant, after=after, limit=limit)
            else:
                effects = record_queries.list_in_state(
                    tx, EffectState.IN_DOUBT, tenant=tenant, after=after, limit=limit
                )
            return [_with_recovery_job(tx, effect) for effect in effects]

        await self._try_end_dead_runs()
        return await self._database.read(query)

    async def find(self, tenant: Tenant, call: str) -> UnresolvedEffect:
        """Return the effect of a call with its recovery state.

        Raises:
            NotFound: the call had no effect, or there is no such call.
        """
        await self._try_end_dead_runs()
        return await self._database.read(lambda tx: _with_recovery_job(tx, require_record(tx, tenant, call)))

    async def _try_end_dead_runs(self) -> None:
        """Mark the effects of a command that was killed a moment ago; a full disk must not hide the known ones."""
        with suppress(StoreUnavailable):
            await self._node.end_dead_runs()

    async def resolve(
        self,
        tenant: Tenant,
        call: str,
        *,
        happened: bool,
        result: Any,
        result_given: bool,
        comment: str,
        by: PrincipalId,
    ) -> UnresolvedEffect:
        """Record the outcome that a person found out; see `gate/idempotency/manual_resolution.py`.

        A result is checked if it is `result_given`: null may be one, or stand for none.

        Raises:
            NotFound: there is no such effect.
            Conflict: it is not in doubt.
            Invalid: the result violates the callable's output schema; carries every mistake.
        """
        await self._node.end_dead_runs()
        record = await self._database.read(lambda tx: require_in_doubt(tx, tenant, call))
        if result_given:
            await self._views.run(lambda store: require_valid_result(store, record, result), tenant)

        def write(tx: Transaction) -> UnresolvedEffect:
            ledger = TransactionLedger(tx, self._clock, self._random, tenant, call, by)
            now = self._clock.now().isoformat()
            effect = resolve(
                tx, ledger, tenant, call, happened=happened, result=result, resolved_by=by, now=now, comment=comment
            )
            return _with_recovery_job(tx, effect)

        return await self._database.write(write)

    async def probe_now(self, tenant: Tenant, call: str) -> bool:
        """Start recovery now; False if only a person can, or it runs already. See `InDoubtEffects.recover_now`."""
        return await self._in_doubt.recover_now(tenant, call)


def _with_recovery_job(tx: Transaction, effect: IdempotencyRecord) -> UnresolvedEffect:
    in_doubt = effect.state is EffectState.IN_DOUBT
    return UnresolvedEffect(
        effect,
        record_queries.recovery_schedule(tx, effect) if in_doubt else None,
        in_doubt and recovers_automatically(effect),
    )
