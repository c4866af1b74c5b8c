"""Unknown outcomes in the inbox: those that no host finds out by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from paddock.core.action import Action
from paddock.core.call import OPERATOR, Principal
from paddock.gate.idempotency.record_queries import count_in_doubt, find_waiting, list_waiting
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.host.inbox.item import InboxItem, InboxKind
from paddock.host.inbox.source import InboxQuery
from paddock.manifest.effects import Risk
from paddock.store.database import Database

_KIND: Final = InboxKind.UNKNOWN_OUTCOME


class UnknownOutcomeSource:
    """Calls whose outcome a person has to find out. For operators of the tenant.

    Args:
        database: Holds the effects.
    """

    kinds = frozenset({_KIND})

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, query: InboxQuery) -> list[InboxItem]:
        tenant, after, since = query.principal.tenant, query.after, None
        if query.with_others or OPERATOR not in query.principal.roles:
            return []
        if after is not None:
            if after.rank > Risk.WARNING.rank:
                return []
            # None has a deadline: after an item of another risk, or with a deadline, all of them follow.
            if after.rank == Risk.WARNING.rank and after.is_timeless:
                since = after.created_at, after.id
        records = await self._database.read(lambda tx: list_waiting(tx, tenant, after=since, limit=query.limit))
        return [outcome_item(record) for record in records]

    async def counts(self, principal: Principal, limit: int, *, with_others: bool) -> Mapping[InboxKind, int]:
        if with_others or OPERATOR not in principal.roles:
            return {_KIND: 0}
        counted = await self._database.read(lambda tx: count_in_doubt(tx, principal.tenant))
        return {_KIND: min(limit, counted.waiting)}

    async def find(self, principal: Principal, item_id: str) -> InboxItem | None:
        if OPERATOR not in principal.roles:
            return None
        record = await self._database.read(lambda tx: find_waiting(tx, principal.tenant, item_id))
        return None if record is None else outcome_item(record)


def outcome_item(record: IdempotencyRecord) -> InboxItem:
    """Return an effect in doubt as an item. Pure."""
    key, error = record.effect_key, record.error or {}
    return InboxItem(
        id=record.call,
        kind=_KIND,
        title=f"{key.plugin} · {key.callable}",
        detail=str(error.get("message") or "It is unknown whether its effect happened."),
        risk=Risk.WARNING,
        link=f"/unknown-outcomes/{quote(record.call, safe='')}",
        requester=record.principal or "",
        plugin=key.plugin,
        callable=key.callable,
        answerable_by=(f"role:{OPERATOR}",),
        action=Action.of("call.unresolved.show", call=record.call, tenant=key.tenant),
        reference=record.call,
        created_at=record.claimed_at,
    )
