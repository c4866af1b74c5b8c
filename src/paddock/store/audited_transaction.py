"""What every change of who may act needs: the unit of work, whose it is, who makes it, and where it is told."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.core.events.event import EventSink
from paddock.core.ids import PrincipalId, Tenant
from paddock.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AuditedTransaction:
    """One unit of work in which somebody changes who may act in a tenant. The event and the rows are kept together."""

    tx: Transaction
    tenant: Tenant
    by: PrincipalId
    now: str
    """ISO-8601 in UTC."""
    publish: EventSink
