"""Calls of which nobody knows whether they have happened, for whoever operates their tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.clock import Clock, Random
from paddock.core.errors import Invalid, NotFound
from paddock.core.ids import PrincipalId, Tenant
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import recovers_automatically
from paddock.gate.idempotency.records import IdempotencyRecord, RecoverySchedule
from paddock.gate.idempotency.resolve import InDoubtCount, count_in_doubt, require_in_doubt, require_record, resolve
from paddock.gate.idempotency.states import EffectState
from paddock.ledger.write.append import TransactionLedger
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.tools import load_tools
from paddock.store.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class UnresolvedEffect:
    """One such effect, and how finding out goes.

    Attributes:
        search: The work in the queue that does; None where none does.
        by_itself: Whether the host finds out by itself, as far as its record tells.
    """

    effect: IdempotencyRecord
    search: RecoverySchedule | None
    by_itself: bool


def require_valid_result(store: PluginStore, doubt: IdempotencyRecord, found: Any) -> None:
    """Refuse a result that the callable could not have given. Of a plugin that is gone nobody knows what it promised.

    Raises:
        Invalid: it is not what the callable promises; carries every mistake.
    """
    try:
        broken = load_tools(store, doubt.effect_key.plugin).output_problems(doubt.effect_key.callable, found)
    except NotFound:
        return
    if broken:
        name = f"{doubt.effect_key.plugin} {doubt.effect_key.callable}"
        raise Invalid(f"{name} does not give such a result", broken, code="invalid_params")


class UnknownOutcomes:
    """Reads and settles them.

    Args:
        database: Where the records are.
        views: Where it stands what callables promise.
        effects: Has it found out what became of them.
        clock: The time.
        random: Chance.
    """

    def __init__(
        self, database: Database, views: StoreThread, effects: EffectCoordinator, clock: Clock, random: Random
    ) -> None:
        self._database = database
        self._views = views
        self._effects = effects
        self._clock = clock
        self._random = random

    async def count(self, tenant: Tenant) -> InDoubtCount:
        """How many there are, and how many wait for a person."""
        return await self._database.read(lambda tx: count_in_doubt(tx, tenant))

    async def list_effects(
        self, tenant: Tenant, *, resolved: bool = False, after: str | None = None, limit: int = 50
    ) -> list[UnresolvedEffect]:
        """Those in doubt, the oldest first; or those that were, the latest first.

        Raises:
            NotFound: `after` is no effect of the tenant.
        """

        def unit(tx: Transaction) -> list[UnresolvedEffect]:
            if after is not None:
                require_record(tx, tenant, after)
            if resolved:
                found = records.list_resolved(tx, tenant, after=after, limit=limit)
            else:
                found = records.list_in_state(tx, EffectState.IN_DOUBT, tenant=tenant, after=after, limit=limit)
            return [_with_recovery_job(tx, effect) for effect in found]

        return await self._database.read(unit)

    async def find(self, tenant: Tenant, call: str) -> UnresolvedEffect:
        """What is known of the effect of a call.

        Raises:
            NotFound: the call had none, or there is no such call.
        """
        return await self._database.read(lambda tx: _with_recovery_job(tx, require_record(tx, tenant, call)))

    async def resolve(
        self, tenant: Tenant, call: str, *, happened: bool, result: Any, comment: str, by: PrincipalId
    ) -> None:
        """Keep what a person found out; see `gate/idempotency/resolve.py`.

        Raises:
            NotFound: there is no such effect.
            Conflict: it is not in doubt.
            Invalid: the callable could not have given that result; carries every mistake.
        """
        doubt = await self._database.read(lambda tx: require_in_doubt(tx, tenant, call))
        if result is not None:
            await self._views.run(lambda store: require_valid_result(store, doubt, result), tenant)

        def unit(tx: Transaction) -> None:
            told = TransactionLedger(tx, self._clock, self._random, tenant, call, by)
            now = self._clock.now().isoformat()
            resolve(tx, told, tenant, call, happened=happened, result=result, by=by, now=now, comment=comment)

        await self._database.write(unit)

    async def probe_now(self, tenant: Tenant, call: str) -> bool:
        """Have the host find out at once; False where only a person can, or it is at it. See `Effects.look_now`."""
        return await self._effects.recover_now(tenant, call)


def _with_recovery_job(tx: Transaction, effect: IdempotencyRecord) -> UnresolvedEffect:
    in_doubt = effect.state is EffectState.IN_DOUBT
    return UnresolvedEffect(
        effect, records.recovery_schedule(tx, effect) if in_doubt else None, in_doubt and recovers_automatically(effect)
    )
