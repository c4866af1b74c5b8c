"""Calls that waited here for a person and that another host makes: what comes of them is in their records."""

from __future__ import annotations

import asyncio
from typing import Any

from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.gate.effects import records
from paddock.gate.effects.machine import State
from paddock.gate.in_progress import Following
from paddock.gate.live_call import LiveCall
from paddock.store.database import Database

_LOOK_AGAIN = 1.0  # seconds


def other_was_first(error: PaddockError) -> bool:
    """Whether a call with a person's yes failed since another host uses that yes."""
    return error.error_code in ("approval.consumed", "effect.underway")


async def end_elsewhere(live: LiveCall, database: Database, following: Following) -> Any:
    """What comes of a call that another host has begun.

    Raises:
        Conflict: `effect.stale`, nothing is kept of it: it only reads, or is forgotten.
        PaddockError: it failed, or nobody knows what became of it.
    """
    tenant, call = live.context.tenant, live.id
    try:
        while not await _is_over_or_parked(live, database):  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(_LOOK_AGAIN)
    except asyncio.CancelledError:
        live.doubt()  # nobody can tell the other host
        raise
    return await following.end_of(tenant, call)


async def _is_over_or_parked(live: LiveCall, database: Database) -> bool:
    try:
        effect = await database.read(lambda tx: records.find_call(tx, live.context.tenant, live.id))
    except StoreUnavailable:
        return False  # it is made all the same
    return effect is None or effect.parked or effect.state is not State.STARTED
