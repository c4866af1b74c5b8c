"""Calls as their records keep them, for whoever goes on with one that another host may have begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from paddock.core.call import CallContext, PolicySnapshot
from paddock.gate.effects.records import Effect
from paddock.gate.held import context_again
from paddock.principals.subjects import principal_of
from paddock.store.database import Database


async def context_of(effect: Effect, database: Database, now: datetime, *, fence: int | None = None) -> CallContext:
    """The surroundings that a call was made in. Who makes it is looked up again: they may not be there any more.

    Args:
        effect: Its record.
        database: Where those are who make calls.
        now: Tells whether they still are.
        fence: That of a further run of the call; without one it is for another call that is made on its behalf.
    """
    kept: dict[str, Any] = {"request": effect.call, "tenant": effect.of.tenant, **(effect.context or {})}
    name = str(kept.get("principal") or "")
    principal = await database.read(lambda tx: principal_of(tx, name, effect.of.tenant, now))
    context = replace(context_again(kept, principal), policy=_policy(kept.get("policy")))
    if fence is None:
        return context
    return replace(context, idempotency_key=effect.of.key, fence=fence, call=effect.call)


def _policy(kept: Mapping[str, Any] | None) -> PolicySnapshot | None:
    if kept is None:
        return None
    return PolicySnapshot(kept["decision"], tuple(kept["policies"]), kept["version"], kept["approval"])
