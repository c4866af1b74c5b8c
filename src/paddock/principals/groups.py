"""Groups of people, for rules to refer to. Membership grants nothing by itself."""

from __future__ import annotations

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.principals import GroupChanged
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.principals.name_rules import validate_name
from paddock.principals.people import require_person
from paddock.principals.tenants import require_tenant
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction


class PersonGroup(Struct, frozen=True):
    """A group with the names of its members."""

    tenant: Tenant
    name: str
    title: str
    created_at: str
    members: tuple[str, ...] = ()


def list_groups(tx: Transaction, tenant: str) -> list[PersonGroup]:
    """List every group of a tenant, by name."""
    members: dict[str, list[str]] = {}
    for row in tx.all("SELECT group_name, person FROM group_members WHERE tenant = ? ORDER BY person", (tenant,)):
        members.setdefault(row["group_name"], []).append(row["person"])
    rows = tx.all("SELECT tenant, name, title, created_at FROM groups WHERE tenant = ? ORDER BY name", (tenant,))
    return [PersonGroup(**row, members=tuple(members.get(row["name"], ()))) for row in rows]


def require_group(tx: Transaction, tenant: str, name: str) -> PersonGroup:
    """Return the group of that name.

    Raises:
        NotFound: the tenant has no such group.
    """
    matching = next((group for group in list_groups(tx, tenant) if group.name == name), None)
    if matching is None:
        require_tenant(tx, tenant)
        raise unknown_group_error(tenant, name)
    return matching


def unknown_group_error(tenant: str, name: str) -> NotFound:
    """Build the error for an unknown group."""
    return NotFound(
        f"the tenant {tenant} has no group {printable(name, 80)!r}",
        code="group.not_found",
        action=Action.of("group.list", tenant=tenant),
    )


def add_group(change: AuditedTransaction, name: str, title: str = "") -> PersonGroup:
    """Create a group.

    Raises:
        NotFound: no such tenant.
        OperatorError: the name is invalid.
        Conflict: the name is taken.
    """
    group = PersonGroup(
        require_tenant(change.tx, change.tenant).name, validate_name("group", name), title or name, change.now
    )
    added = change.tx.execute(
        "INSERT INTO groups (tenant, name, title, created_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (tenant, name) DO NOTHING",
        (group.tenant, group.name, group.title, group.created_at),
    )
    if not added:
        raise Conflict(
            f"the group {name!r} already exists",
            code="group.exists",
            action=Action.of("group.list", tenant=change.tenant),
        )
    change.publish.publish(GroupChanged(name, "added", None, change.by))
    return group


def change_member(change: AuditedTransaction, name: str, person: str, *, remove: bool = False) -> PersonGroup:
    """Add a person to a group, or remove them.

    Raises:
        NotFound: no such group or person.
    """
    group, member = require_group(change.tx, change.tenant, name), require_person(change.tx, change.tenant, person)
    key = (change.tenant, group.name, member.name)
    if remove:
        changed = change.tx.execute("DELETE FROM group_members WHERE tenant = ? AND group_name = ? AND person = ?", key)
    else:
        changed = change.tx.execute(
            "INSERT INTO group_members (tenant, group_name, person) VALUES (?, ?, ?) "
            "ON CONFLICT (tenant, group_name, person) DO NOTHING",
            key,
        )
    if changed:
        action = "member_removed" if remove else "member_added"
        change.publish.publish(GroupChanged(group.name, action, member.id, change.by))
    return require_group(change.tx, change.tenant, name)


def delete_group(change: AuditedTransaction, name: str) -> PersonGroup:
    """Delete a group; its members stay. The requests it was to answer end in `approvals/removal.py`.

    Raises:
        NotFound: no such group.
    """
    group = require_group(change.tx, change.tenant, name)
    change.tx.execute("DELETE FROM groups WHERE tenant = ? AND name = ?", (change.tenant, group.name))
    change.publish.publish(GroupChanged(group.name, "removed", None, change.by))
    return group
