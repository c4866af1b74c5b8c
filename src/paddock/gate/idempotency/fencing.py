"""The fence at the door back: a plugin is served in a call with an effect only while that effect is the call's to make.

A host that was taken for dead may still run, and so may the plugin that it started. Somebody else may have said since
what became of the call, or have it made again. Whatever the plugin still asks for in it is stale, and refused.
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
    """Looks at the records of effects.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # One look at a time for each call: what a plugin asks for without waiting is served in its order.
        self._locks: WeakValueDictionary[CallId, asyncio.Lock] = WeakValueDictionary()

    async def require(self, request: CapabilityRequest) -> None:
        """Let through what is asked for in a call that may still have its effect, or that has none.

        Raises:
            Denied: `call.stale`, when it may not.
        """
        fence = request.call.fence if request.call is not None else None
        if fence is None or request.call_id is None:
            return
        call = request.call_id
        turn = self._locks.get(call)
        if turn is None:
            turn = self._locks[call] = asyncio.Lock()
        async with turn:
            effect = await self._database.read(lambda tx: records.find_by_call(tx, request.tenant, call))
        if not is_current(effect, fence):
            raise Denied(
                "this call may not do anything any more: its host was taken for dead, or somebody has said what became "
                "of it",
                code="call.stale",
                hint="nothing was done; whoever made the call learns what became of it under its key",
                details={"call_id": call, "fence": fence},
            )


def is_current(effect: IdempotencyRecord | None, fence: int) -> bool:
    """Whether a run of a call under this fence is the one that makes the effect.

    A run that finds out what became of a lost one takes its record over, and has the next higher fence: so it is told
    apart from the lost one, and from whoever took it over before.
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
    """The fence of a run that makes an effect again which is in doubt."""
    return effect.fence + 1
