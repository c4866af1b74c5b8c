"""Fencing: denies capability requests from calls whose effect has been taken over or resolved.

A host that was taken for dead may still run, and so may the plugin that it started. Meanwhile another host or a person
may have resolved the call, or another host may repeat it. Any capability request that the plugin still makes in the old
call is stale, and is denied.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from paddock.capabilities.request import CapabilityRequest
from paddock.core.errors import Denied
from paddock.core.ids import CallId
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.store.database import Database


class EffectFencing:
    """Checks capability requests against the fence in the idempotency record.

    Args:
        database: Holds the records.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # One read at a time for each call: requests that a plugin pipelines are served in their order.
        self._locks: WeakValueDictionary[CallId, asyncio.Lock] = WeakValueDictionary()

    async def require(self, request: CapabilityRequest) -> None:
        """Accept a request from a call that has no effect, or whose fence is still current.

        Raises:
            Denied: `call.stale`, the fence is not current.
        """
        fence = request.call.fence if request.call is not None else None
        if fence is None or request.call_id is None:
            return
        call = request.call_id
        lock = self._locks.get(call)
        if lock is None:
            lock = self._locks[call] = asyncio.Lock()
        async with lock:
            effect = await self._database.read(lambda tx: records.find_by_call(tx, request.tenant, call))
        if not is_current(effect, fence):
            raise Denied(
                "this run of the call is stale: its host was considered dead, or a person recorded the outcome",
                code="call.stale",
                hint="nothing was done; the caller gets the outcome by repeating the call with its idempotency key",
                details={"call_id": call, "fence": fence},
            )


def is_current(effect: IdempotencyRecord | None, fence: int) -> bool:
    """Whether a run of a call under this fence is the one that may have the effect.

    A recovery run takes over the record of a lost run and has the next higher fence. So it differs from the lost run,
    and from any earlier recovery run.
    """
    match effect:
        case None:
            return False
        case IdempotencyRecord(state=EffectState.STARTED):
            return fence == effect.fence
        case IdempotencyRecord(state=EffectState.IN_DOUBT):
            return fence == next_fence(effect)
        case _:
            return False


def next_fence(effect: IdempotencyRecord) -> int:
    """Return the fence of a run that recovers an effect in doubt."""
    return effect.fence + 1
