"""A transaction together with its tenant, principal and event sink, for changes that are audited."""

from __future__ import annotations

from msgspec import Struct

from paddock.core.events.event import EventSink
from paddock.core.ids import PrincipalId, Tenant
from paddock.store.transaction import Transaction


class AuditedTransaction(Struct, frozen=True):
    """A unit of work that changes who may act in a tenant. The event and the rows are committed together."""

    tx: Transaction
    tenant: Tenant
    by: PrincipalId
    now: str
    """ISO-8601 in UTC."""
    publish: EventSink
