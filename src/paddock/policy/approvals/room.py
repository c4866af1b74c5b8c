"""How much may wait for people at once: people answer slowly, and whoever calls may be fast."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddock.core.errors import Busy
from paddock.policy.approvals import rows
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Room:
    """So many requests that have not ended, and so many bytes of parameters in them.

    One who calls has a small part of their tenant's, so that nobody fills the list that all approvers look at.
    """

    per_principal: int = 100
    per_tenant: int = 1_000
    bytes_per_principal: int = 8 << 20
    bytes_per_tenant: int = 64 << 20


def require_room(tx: Transaction, tenant: str, requester: str, payload: Mapping[str, Any], room: Room) -> None:
    """Refuse a request for which there is no room.

    Raises:
        Busy: so much waits already.
    """
    size = len(json.dumps(payload))
    theirs, all_of_them = rows.amount_open(tx, tenant, requester), rows.amount_open(tx, tenant)
    for whose, (count, kept), most, most_bytes in (
        (requester, theirs, room.per_principal, room.bytes_per_principal),
        ("your tenant", all_of_them, room.per_tenant, room.bytes_per_tenant),
    ):
        if count >= most:
            raise _full(f"{whose} has {count:,} calls waiting for a person, and that is the limit", most)
        if kept + size > most_bytes:
            raise _full(f"{whose} has no more than {most_bytes:,} bytes of parameters for calls that wait", most)


def _full(message: str, most: int) -> Busy:
    return Busy(
        message,
        code="approval.too_many",
        hint="have some of them answered, or cancel some: paddock approvals list",
        details={"limit_waiting": most},
    )
