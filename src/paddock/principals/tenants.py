"""Tenants: who shares people, grants and a record, and nothing else. The default one exists always."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.core.errors import Conflict, NotFound, OperatorError
from paddock.core.events.principals import TenantCreated, TenantRemoved
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.principals.name_rules import validate_name
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

# What keeps a tenant from being removed: the table, what its rows are called, and what to do about them.
_BLOCKING_TABLES = (
    ("people", "people", "remove them: paddock user remove NAME --tenant {tenant}"),
    ("groups", "groups", "remove them: paddock group remove NAME --tenant {tenant}"),
    ("grants", "grants of plugins", "uninstall those plugins: paddock plugin list"),
    ("plugin_values", "values that plugins keep", "uninstall those plugins: paddock plugin list"),
    ("plugin_artifacts", "artifacts", "uninstall the plugins that made them: paddock plugin list"),
    (
        "ledger",
        "entries in the record",
        "a tenant with a past stays; disable its people: paddock user list --tenant {tenant}",
    ),
)


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """A tenant as it is kept. The default one was never made."""

    name: Tenant
    title: str
    created_at: str | None


def list_tenants(tx: Transaction) -> list[TenantRecord]:
    """All of them, the default one first."""
    rows = tx.all("SELECT name, title, created_at FROM tenants ORDER BY created_at IS NOT NULL, name")
    return [TenantRecord(**row) for row in rows]


def require_tenant(tx: Transaction, name: str) -> TenantRecord:
    """The tenant of that name.

    Raises:
        NotFound: there is none.
    """
    row = tx.one("SELECT name, title, created_at FROM tenants WHERE name = ?", (name,))
    if row is None:
        raise unknown_tenant_error(name)
    return TenantRecord(**row)


def unknown_tenant_error(name: str) -> NotFound:
    """What is said of a name that no tenant has, and of another tenant's to whoever may not know of it."""
    return NotFound(
        f"there is no tenant {printable(name, 80)!r}",
        code="tenant.not_found",
        hint="see 'paddock tenant list', or make one: paddock tenant add NAME",
    )


def add_tenant(change: AuditedTransaction, name: str, title: str = "") -> TenantRecord:
    """Make a tenant.

    Raises:
        OperatorError: nobody can be called that.
        Conflict: there is one of that name.
    """
    row = TenantRecord(Tenant(validate_name("tenant", name)), title or name, change.now)
    added = change.tx.execute(
        "INSERT INTO tenants (name, title, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
        (row.name, row.title, row.created_at),
    )
    if not added:
        raise Conflict(f"there is a tenant {name!r} already", code="tenant.exists", hint="see 'paddock tenant list'")
    change.publish.publish(TenantCreated(row.name, change.by))
    return row


def remove_tenant(change: AuditedTransaction, name: str) -> TenantRecord:
    """Remove a tenant that nothing belongs to any more.

    Raises:
        NotFound: there is none of that name.
        OperatorError: it is the default one.
        Conflict: something still belongs to it; says what, and what to do.
    """
    row = require_tenant(change.tx, name)
    if row.name == DEFAULT_TENANT:
        raise OperatorError("the default tenant stays", code="tenant.default", hint="remove another one")
    kept = [
        (words, count, way)
        for table, words, way in _BLOCKING_TABLES
        if (count := _count_rows(change.tx, table, row.name))
    ]
    if kept:
        raise Conflict(
            f"the tenant {name} still has {', '.join(f'{words} ({count})' for words, count, _ in kept)}",
            code="tenant.in_use",
            hint=kept[0][2].format(tenant=name),
            details={"tenant": name} | {words.replace(" ", "_"): count for words, count, _ in kept},
        )
    change.tx.execute("DELETE FROM person_consents WHERE tenant = ?", (row.name,))
    change.tx.execute("DELETE FROM tenants WHERE name = ?", (row.name,))
    change.publish.publish(TenantRemoved(row.name, change.by))
    return row


def _count_rows(tx: Transaction, table: str, tenant: str) -> int:
    row = tx.one(f"SELECT count(*) AS n FROM {table} WHERE tenant = ?", (tenant,))  # noqa: S608  # our own tables
    return row["n"] if row else 0
