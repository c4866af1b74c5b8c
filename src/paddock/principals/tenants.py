"""Tenants: each has its own people, grants and ledger. The default tenant always exists."""

from __future__ import annotations

from msgspec import Struct

from paddock.core.action import Action, ActionKind
from paddock.core.errors import Conflict, NotFound, OperatorError
from paddock.core.events.principals import TenantCreated, TenantRemoved
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.principals.name_rules import validate_name
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

# Tables that block the removal of a tenant: what their rows are called, and what to do about them.
_BLOCKING_TABLES: tuple[tuple[str, str, str, ActionKind], ...] = (
    ("people", "people", "remove them first", "user.remove"),
    ("groups", "groups", "remove them first", "group.remove"),
    ("grants", "grants of plugins", "remove those plugins first", "plugin.list"),
    ("plugin_values", "values of plugins", "remove those plugins first", "plugin.list"),
    ("plugin_artifacts", "artifacts", "remove the plugins that made them first", "plugin.list"),
    ("ledger", "ledger entries", "a tenant with ledger entries cannot be removed; disable its users", "user.list"),
)


class TenantRecord(Struct, frozen=True):
    """A stored tenant. The default one has no creation time."""

    name: Tenant
    title: str
    created_at: str | None


def list_tenants(tx: Transaction) -> list[TenantRecord]:
    """List all tenants, the default one first."""
    rows = tx.all("SELECT name, title, created_at FROM tenants ORDER BY created_at IS NOT NULL, name")
    return [TenantRecord(**row) for row in rows]


def require_tenant(tx: Transaction, name: str) -> TenantRecord:
    """Return the tenant of that name.

    Raises:
        NotFound: no such tenant.
    """
    row = tx.one("SELECT name, title, created_at FROM tenants WHERE name = ?", (name,))
    if row is None:
        raise unknown_tenant_error(name)
    return TenantRecord(**row)


def unknown_tenant_error(name: str) -> NotFound:
    """Build the error for an unknown tenant, and for one that the principal may not see."""
    return NotFound(
        f"there is no tenant {printable(name, 80)!r}",
        code="tenant.not_found",
        action=Action.of("tenant.list"),
    )


def add_tenant(change: AuditedTransaction, name: str, title: str = "") -> TenantRecord:
    """Create a tenant.

    Raises:
        OperatorError: the name is invalid.
        Conflict: the name is taken.
    """
    row = TenantRecord(Tenant(validate_name("tenant", name)), title or name, change.now)
    added = change.tx.execute(
        "INSERT INTO tenants (name, title, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
        (row.name, row.title, row.created_at),
    )
    if not added:
        raise Conflict(f"the tenant {name!r} already exists", code="tenant.exists", action=Action.of("tenant.list"))
    change.publish.publish(TenantCreated(row.name, change.by))
    return row


def remove_tenant(change: AuditedTransaction, name: str) -> TenantRecord:
    """Remove a tenant that owns nothing any more.

    Raises:
        NotFound: no such tenant.
        OperatorError: it is the default one.
        Conflict: it still owns something; says what, and what to do.
    """
    row = require_tenant(change.tx, name)
    if row.name == DEFAULT_TENANT:
        raise OperatorError("the default tenant cannot be removed", code="tenant.default")
    blocking: list[tuple[str, int, str, ActionKind]] = [
        (label, count, hint, kind)
        for table, label, hint, kind in _BLOCKING_TABLES
        if (count := _count_rows(change.tx, table, row.name))
    ]
    if blocking:
        raise Conflict(
            f"the tenant {name} still has {', '.join(f'{label} ({count})' for label, count, _, _ in blocking)}",
            code="tenant.in_use",
            hint=blocking[0][2],
            action=Action.of(blocking[0][3], tenant=name),
            details={"tenant": name} | {label.replace(" ", "_"): count for label, count, _, _ in blocking},
        )
    change.tx.execute("DELETE FROM person_consents WHERE tenant = ?", (row.name,))
    change.tx.execute("DELETE FROM tenants WHERE name = ?", (row.name,))
    change.publish.publish(TenantRemoved(row.name, change.by))
    return row


def _count_rows(tx: Transaction, table: str, tenant: str) -> int:
    of_tenant = "chain = (SELECT chain FROM ledger_chains WHERE tenant = ?)" if table == "ledger" else "tenant = ?"
    row = tx.one(f"SELECT count(*) AS n FROM {table} WHERE {of_tenant}", (tenant,))  # noqa: S608  # our own tables
    return row["n"] if row else 0
