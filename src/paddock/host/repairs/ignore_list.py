"""Repairs that people chose to ignore, by tenant. Every function takes the transaction that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from paddock.core.errors import NotFound
from paddock.core.events.system import RepairIgnored, RepairUnignored
from paddock.core.ids import Tenant
from paddock.host.repairs.repair import Repair
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction


class IgnoredRepair(Struct, frozen=True):
    """A person's decision to ignore a repair; `fingerprint` identifies the cause that they saw."""

    repair: str
    fingerprint: str
    ignored_at: str
    ignored_by: str

    def matches(self, current: Repair) -> bool:
        """Return whether the repair still has the same cause."""
        return self.fingerprint == current.fingerprint


def read_ignored(tx: Transaction, tenant: Tenant) -> dict[str, IgnoredRepair]:
    """Return all ignored repairs of a tenant, by repair id."""
    rows = tx.all("SELECT repair, fingerprint, ignored_at, ignored_by FROM ignored_repairs WHERE tenant = ?", (tenant,))
    return {row["repair"]: IgnoredRepair(**row) for row in rows}


def ignore_repair(change: AuditedTransaction, repair: Repair) -> None:
    """Ignore a repair as long as its cause stays the same."""
    change.tx.execute(
        "INSERT INTO ignored_repairs (tenant, repair, fingerprint, ignored_at, ignored_by) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, repair) DO UPDATE SET fingerprint = excluded.fingerprint, "
        "ignored_at = excluded.ignored_at, ignored_by = excluded.ignored_by",
        (change.tenant, repair.id, repair.fingerprint, change.now, change.by),
    )
    change.publish.publish(RepairIgnored(repair.id, change.by))


def unignore_repair(change: AuditedTransaction, repair: str) -> None:
    """Report a repair again.

    Raises:
        NotFound: it is not ignored.
    """
    if not change.tx.execute("DELETE FROM ignored_repairs WHERE tenant = ? AND repair = ?", (change.tenant, repair)):
        raise NotFound("this repair is not ignored", code="repair.not_ignored", hint="look at the list again")
    change.publish.publish(RepairUnignored(repair, change.by))


def delete_ignored(tx: Transaction, tenant: Tenant, repairs: Iterable[str]) -> None:
    """Delete decisions about repairs that are gone: if they come back, they are reported again."""
    for repair in repairs:
        tx.execute("DELETE FROM ignored_repairs WHERE tenant = ? AND repair = ?", (tenant, repair))
