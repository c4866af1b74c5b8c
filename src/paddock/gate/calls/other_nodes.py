"""Follow calls that waited here for approval and that another host runs: their outcome is read from their records."""

from __future__ import annotations

import asyncio
from typing import Any

from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.gate.calls.handle import CallHandle
from paddock.gate.effects.long_running_calls import LongRunningCalls
from paddock.gate.idempotency import records
from paddock.gate.idempotency.states import EffectState
from paddock.store.database import Database

_REMOTE_CHECK_INTERVAL_S = 1.0


def claimed_by_other_host(error: PaddockError) -> bool:
    """Whether an approved call failed because another host has used the approval."""
    return error.error_code in ("approval.consumed", "effect.underway")


async def wait_for_remote_outcome(handle: CallHandle, database: Database, long_running: LongRunningCalls) -> Any:
    """Wait for the outcome of a call that another host has started, and return its result.

    Raises:
        Conflict: `effect.stale`, there is no record of it: it is read-only, or its record was deleted.
        PaddockError: it failed, or its outcome is unknown.
    """
    tenant, call = handle.context.tenant, handle.id
    try:
        while not await _is_over_or_parked(handle, database):  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(_REMOTE_CHECK_INTERVAL_S)
    except asyncio.CancelledError:
        handle.on_in_doubt()  # the other host cannot be told of the cancellation
        raise
    return await long_running.wait_for_outcome(tenant, call)


async def _is_over_or_parked(handle: CallHandle, database: Database) -> bool:
    try:
        effect = await database.read(lambda tx: records.find_by_call(tx, handle.context.tenant, handle.id))
    except StoreUnavailable:
        return False  # the other host runs it all the same
    return effect is None or effect.parked or effect.state is not EffectState.STARTED
