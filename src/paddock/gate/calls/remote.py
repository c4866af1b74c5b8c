"""Calls that waited here for a person and that another host makes: what comes of them is in their records."""

from __future__ import annotations

import asyncio
from typing import Any

from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.gate.calls.handle import CallHandle
from paddock.gate.effects.long_running import LongRunningCalls
from paddock.gate.idempotency import records
from paddock.gate.idempotency.states import EffectState
from paddock.store.database import Database

_REMOTE_CHECK_INTERVAL_S = 1.0  # seconds


def claimed_by_other_host(error: PaddockError) -> bool:
    """Whether a call with a person's yes failed since another host uses that yes."""
    return error.error_code in ("approval.consumed", "effect.underway")


async def wait_for_remote_outcome(handle: CallHandle, database: Database, long_running: LongRunningCalls) -> Any:
    """What comes of a call that another host has begun.

    Raises:
        Conflict: `effect.stale`, nothing is kept of it: it only reads, or is forgotten.
        PaddockError: it failed, or nobody knows what became of it.
    """
    tenant, call = handle.context.tenant, handle.id
    try:
        while not await _is_over_or_parked(handle, database):  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(_REMOTE_CHECK_INTERVAL_S)
    except asyncio.CancelledError:
        handle.on_in_doubt()  # nobody can tell the other host
        raise
    return await long_running.wait_for_outcome(tenant, call)


async def _is_over_or_parked(handle: CallHandle, database: Database) -> bool:
    try:
        effect = await database.read(lambda tx: records.find_by_call(tx, handle.context.tenant, handle.id))
    except StoreUnavailable:
        return False  # it is made all the same
    return effect is None or effect.parked or effect.state is not EffectState.STARTED
