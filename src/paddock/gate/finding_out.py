"""Whoever comes with the key of an effect in doubt waits a while for what is found out about it.

A daemon finds out by itself, see `recovering.py`, and they look at what it has found. A command has nobody who would:
it finds out in the name of whoever waits, before it makes their call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias

from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.effects import records
from paddock.gate.effects.errors import is_found_out
from paddock.gate.effects.machine import State
from paddock.gate.effects.records import Effect
from paddock.gate.finishing import finished
from paddock.gate.once import work_of
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.schedule import Again
from paddock.store.database import Database, Transaction

LONGEST = 20.0  # seconds: what was cancelled is looked at after ten, and a probe that finds nothing looks twice
_LOOK_AGAIN = 0.2

Recover: TypeAlias = Callable[[Tenant, str], Awaitable[Again | None]]


class FindingOut:
    """Waits until it is known what became of effects.

    Args:
        database: Where their records and the queue are.
        clock: The time.
        node: In whose name a command takes the work from the queue.
        recover: Finds it out here; None where a daemon does so by itself.
    """

    def __init__(self, database: Database, clock: Clock, node: Node, recover: Recover | None = None) -> None:
        self._database = database
        self._clock = clock
        self._node = node
        self._recover = recover

    async def known(self, effect: Effect) -> bool:
        """Whether it is known by now what became of an effect, after a while at most.

        Not where nobody would find out in that time: its plugin does not say how, or it was tried in vain.
        """
        if not is_found_out(effect):
            return False
        until = self._clock.monotonic() + LONGEST
        while (now := self._clock.monotonic()) < until:
            over, due = await self._database.read(lambda tx: _looked_at(tx, effect))
            if over or due is None:
                return over
            wait = (due - self._clock.now()).total_seconds()
            if now + wait > until:
                return False
            if self._recover is not None and wait <= 0 and not await self._found_out(effect, self._recover):
                return False
            await asyncio.sleep(min(max(wait, _LOOK_AGAIN), until - now))
        return False

    async def _found_out(self, effect: Effect, recover: Recover) -> bool:
        """Look once, as a worker would; False where that does not tell now."""
        of, here, now = effect.of, await self._node.here(), self._clock.now()
        take = queue.take_this
        work = await self._database.write(lambda tx: take(tx, here, of.tenant, work_of(effect), effect.call, now=now))
        if work is None:
            return True  # another has it
        try:
            again = await recover(of.tenant, effect.call)
            now = self._clock.now()
            await self._database.write(
                lambda tx: queue.done(tx, work) if again is None else queue.again(tx, work, again.due, now=now)
            )
        except BaseException as error:
            await finished(self._database.write(lambda tx: queue.put_back(tx, work)))
            if isinstance(error, PaddockError):
                return False  # a daemon tries again for a day
            raise
        return True


def _looked_at(tx: Transaction, effect: Effect) -> tuple[bool, datetime | None]:
    """Whether it is known what became of it, and else when somebody looks, if anybody does."""
    now = records.find_call(tx, effect.of.tenant, effect.call)
    if now is None or now.state is not State.IN_DOUBT:
        return True, None
    return False, queue.due_of(tx, effect.of.tenant, work_of(effect), effect.call)
