"""Calls of which nobody knows whether they have happened, for whoever operates their tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.clock import Clock, Random
from paddock.core.errors import Invalid, NotFound
from paddock.core.ids import PrincipalId, Tenant
from paddock.gate.effects import records
from paddock.gate.effects.doubt_count import DoubtCount, count_doubts
from paddock.gate.effects.errors import is_found_out
from paddock.gate.effects.machine import State
from paddock.gate.effects.records import Effect, Search
from paddock.gate.effects.resolving import require_doubt, require_effect, resolve
from paddock.gate.once import Effects
from paddock.ledger.append import LedgerTable
from paddock.plugins.definitions.tools import tools_of
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread
from paddock.store.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class Doubt:
    """One such effect, and how finding out goes.

    Attributes:
        search: The work in the queue that does; None where none does.
        by_itself: Whether the host finds out by itself, as far as its record tells.
    """

    effect: Effect
    search: Search | None
    by_itself: bool


def require_promised(store: PluginStore, doubt: Effect, found: Any) -> None:
    """Refuse a result that the callable could not have given. Of a plugin that is gone nobody knows what it promised.

    Raises:
        Invalid: it is not what the callable promises; carries every mistake.
    """
    try:
        broken = tools_of(store, doubt.of.plugin).broken_by(doubt.of.callable, found)
    except NotFound:
        return
    if broken:
        name = f"{doubt.of.plugin} {doubt.of.callable}"
        raise Invalid(f"{name} does not give such a result", broken, code="invalid_params")


class Doubts:
    """Reads and settles them.

    Args:
        database: Where the records are.
        views: Where it stands what callables promise.
        effects: Has it found out what became of them.
        clock: The time.
        random: Chance.
    """

    def __init__(self, database: Database, views: StoreThread, effects: Effects, clock: Clock, random: Random) -> None:
        self._database = database
        self._views = views
        self._effects = effects
        self._clock = clock
        self._random = random

    async def count(self, tenant: Tenant) -> DoubtCount:
        """How many there are, and how many wait for a person."""
        return await self._database.read(lambda tx: count_doubts(tx, tenant))

    async def listed(
        self, tenant: Tenant, *, resolved: bool = False, after: str | None = None, limit: int = 50
    ) -> list[Doubt]:
        """Those in doubt, the oldest first; or those that were, the latest first.

        Raises:
            NotFound: `after` is no effect of the tenant.
        """

        def unit(tx: Transaction) -> list[Doubt]:
            if after is not None:
                require_effect(tx, tenant, after)
            if resolved:
                found = records.resolved(tx, tenant, after=after, limit=limit)
            else:
                found = records.in_state(tx, State.IN_DOUBT, tenant=tenant, after=after, limit=limit)
            return [_told(tx, effect) for effect in found]

        return await self._database.read(unit)

    async def find(self, tenant: Tenant, call: str) -> Doubt:
        """What is known of the effect of a call.

        Raises:
            NotFound: the call had none, or there is no such call.
        """
        return await self._database.read(lambda tx: _told(tx, require_effect(tx, tenant, call)))

    async def resolve(
        self, tenant: Tenant, call: str, *, happened: bool, result: Any, comment: str, by: PrincipalId
    ) -> None:
        """Keep what a person found out; see `gate/effects/resolving.py`.

        Raises:
            NotFound: there is no such effect.
            Conflict: it is not in doubt.
            Invalid: the callable could not have given that result; carries every mistake.
        """
        doubt = await self._database.read(lambda tx: require_doubt(tx, tenant, call))
        if result is not None:
            await self._views.run(lambda store: require_promised(store, doubt, result), tenant)

        def unit(tx: Transaction) -> None:
            told = LedgerTable(tx, self._clock, self._random, tenant, call, by)
            now = self._clock.now().isoformat()
            resolve(tx, told, tenant, call, happened=happened, result=result, by=by, now=now, comment=comment)

        await self._database.write(unit)

    async def look_now(self, tenant: Tenant, call: str) -> bool:
        """Have the host find out at once; False where only a person can, or it is at it. See `Effects.look_now`."""
        return await self._effects.look_now(tenant, call)


def _told(tx: Transaction, effect: Effect) -> Doubt:
    in_doubt = effect.state is State.IN_DOUBT
    return Doubt(effect, records.search(tx, effect) if in_doubt else None, in_doubt and is_found_out(effect))
