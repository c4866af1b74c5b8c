"""What people said to leave alone, by tenant. Every function takes the unit of work that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paddock.core.errors import NotFound
from paddock.core.events.system import RepairIgnored, RepairUnignored
from paddock.core.ids import Tenant
from paddock.host.repairs.repair import Repair
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class IgnoredRepair:
    """Somebody's word to leave a repair alone; `fingerprint` is of the cause that they saw."""

    repair: str
    fingerprint: str
    ignored_at: str
    ignored_by: str

    def matches(self, one: Repair) -> bool:
        """Whether it is still about the same cause."""
        return self.fingerprint == one.fingerprint


def read_ignored(tx: Transaction, tenant: Tenant) -> dict[str, IgnoredRepair]:
    """All of a tenant, by the repair's id."""
    rows = tx.all("SELECT repair, fingerprint, ignored_at, ignored_by FROM ignored_repairs WHERE tenant = ?", (tenant,))
    return {row["repair"]: IgnoredRepair(**row) for row in rows}


def ignore_repair(change: AuditedTransaction, one: Repair) -> None:
    """Leave it alone as long as its cause is this one."""
    change.tx.execute(
        "INSERT INTO ignored_repairs (tenant, repair, fingerprint, ignored_at, ignored_by) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, repair) DO UPDATE SET fingerprint = excluded.fingerprint, "
        "ignored_at = excluded.ignored_at, ignored_by = excluded.ignored_by",
        (change.tenant, one.id, one.fingerprint, change.now, change.by),
    )
    change.publish.publish(RepairIgnored(one.id, change.by))


def unignore_repair(change: AuditedTransaction, repair: str) -> None:
    """Tell of it again.

    Raises:
        NotFound: nobody ignores it.
    """
    if not change.tx.execute("DELETE FROM ignored_repairs WHERE tenant = ? AND repair = ?", (change.tenant, repair)):
        raise NotFound("nobody ignores this", code="repair.not_ignored", hint="look at the list again")
    change.publish.publish(RepairUnignored(repair, change.by))


def delete_ignored(tx: Transaction, tenant: Tenant, repairs: Iterable[str]) -> None:
    """Drop what was said of repairs that are over: should they come back, they are told again."""
    for one in repairs:
        tx.execute("DELETE FROM ignored_repairs WHERE tenant = ? AND repair = ?", (tenant, one))
