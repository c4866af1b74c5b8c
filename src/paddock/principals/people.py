"""People of a tenant: their names, roles and scopes, and whether they may act."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.call import OPERATOR
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.principals import PersonAdded, PersonChanged
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.principals.name_rules import validate_display_name, validate_name, validate_names
from paddock.principals.tenants import require_tenant
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Row, Transaction


class Rights(Struct, frozen=True):
    """A person's rights: rules decide by roles, scopes open restricted callables, and rules may refer to groups."""

    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def not_held(self, roles: Iterable[str], scopes: Iterable[str]) -> list[str]:
        """Return those roles and scopes that the person lacks, and so cannot pass on."""
        lacking = [] if OPERATOR in self.roles else sorted({*scopes} - self.scopes)
        return sorted({*roles} - self.roles) + lacking

    def restrict(self, roles: frozenset[str], scopes: frozenset[str]) -> Rights:
        """Limit a key's roles and scopes to those that its owner has now."""
        return Rights(roles & self.roles, scopes if OPERATOR in self.roles else scopes & self.scopes, self.groups)


def load_rights(tx: Transaction, tenant: str, person: str) -> Rights:
    """Load all rights of a person in one query."""
    rows = tx.all(
        "SELECT 'role' AS kind, role AS word FROM person_roles WHERE tenant = ? AND person = ? "
        "UNION ALL SELECT 'scope' AS kind, scope AS word FROM person_scopes WHERE tenant = ? AND person = ? "
        "UNION ALL SELECT 'group' AS kind, group_name AS word FROM group_members WHERE tenant = ? AND person = ?",
        (tenant, person) * 3,
    )
    return Rights(
        *(frozenset(row["word"] for row in rows if row["kind"] == kind) for kind in ("role", "scope", "group"))
    )


class Person(Struct, frozen=True):
    """A stored person."""

    tenant: Tenant
    name: str
    display_name: str
    disabled: bool
    created_at: str
    rights: Rights

    @property
    def id(self) -> PrincipalId:
        """Their principal id."""
        return PrincipalId(f"user:{self.name}")


def list_people(tx: Transaction, tenant: str) -> list[Person]:
    """List everybody of a tenant, by name."""
    return [
        _person_from_row(tx, row) for row in tx.all("SELECT * FROM people WHERE tenant = ? ORDER BY name", (tenant,))
    ]


def find_person(tx: Transaction, tenant: str, name: str) -> Person | None:
    row = tx.one("SELECT * FROM people WHERE tenant = ? AND name = ?", (tenant, name))
    return _person_from_row(tx, row) if row else None


def require_person(tx: Transaction, tenant: str, name: str) -> Person:
    """Return the person of that name; `user:ann` and `ann` are the same.

    Raises:
        NotFound: the tenant has no such person.
    """
    person = find_person(tx, tenant, name.removeprefix("user:"))
    if person is None:
        require_tenant(tx, tenant)
        raise unknown_person_error(tenant, name)
    return person


def unknown_person_error(tenant: str, name: str) -> NotFound:
    """Build the error for an unknown person."""
    return NotFound(
        f"the tenant {tenant} has no user {printable(name, 80)!r}",
        code="person.not_found",
        action=Action.of("user.add", tenant=tenant),
    )


def add_person(
    change: AuditedTransaction,
    name: str,
    *,
    display_name: str = "",
    roles: Iterable[str] = ("member",),
    scopes: Iterable[str] = (),
) -> Person:
    """Add a person to the change's tenant.

    Raises:
        NotFound: no such tenant.
        OperatorError: the name, a role or a scope is invalid.
        Conflict: the name is taken.
    """
    tx, tenant = change.tx, require_tenant(change.tx, change.tenant).name
    rights = Rights(validate_names("role", roles), validate_names("scope", scopes))
    shown_name = validate_display_name(display_name) or name
    person = Person(tenant, validate_name("person", name), shown_name, False, change.now, rights)
    added = tx.execute(
        "INSERT INTO people (tenant, name, display_name, disabled, created_at) VALUES (?, ?, ?, 0, ?) "
        "ON CONFLICT (tenant, name) DO NOTHING",
        (tenant, person.name, person.display_name, person.created_at),
    )
    if not added:
        raise Conflict(
            f"the tenant {tenant} already has a user {name!r}",
            code="person.exists",
            action=Action.of("user.show", user=name, tenant=tenant),
        )
    _write_rights(change, person.name, Rights(), rights)
    change.publish.publish(PersonAdded(person.id, *_rights_lists(rights), change.by))
    return person


def change_rights(
    change: AuditedTransaction,
    name: str,
    field: Literal["roles", "scopes"],
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> Person:
    """Add and remove roles or scopes of a person. Their keys lose removed ones at once.

    Raises:
        NotFound: no such person.
        OperatorError: a role or scope is invalid.
    """
    person = require_person(change.tx, change.tenant, name)
    before = getattr(person.rights, field)
    after = (before | validate_names("role" if field == "roles" else "scope", add)) - frozenset(remove)
    rights = replace(person.rights, **{field: after})
    if after != before:
        _write_rights(change, person.name, person.rights, rights)
        change.publish.publish(PersonChanged(person.id, field, *_rights_lists(rights), change.by))
    return replace(person, rights=rights)


def rename_person(change: AuditedTransaction, name: str, display_name: str) -> Person:
    """Change the display name of a person; empty sets it to their name, which stays. The ledger has no display names.

    Raises:
        NotFound: no such person.
        OperatorError: the display name is too long.
    """
    person = require_person(change.tx, change.tenant, name)
    shown_name = validate_display_name(display_name) or person.name
    if shown_name != person.display_name:
        change.tx.execute(
            "UPDATE people SET display_name = ? WHERE tenant = ? AND name = ?", (shown_name, person.tenant, person.name)
        )
        change.publish.publish(PersonChanged(person.id, "renamed", *_rights_lists(person.rights), change.by))
    return replace(person, display_name=shown_name)


def set_disabled(change: AuditedTransaction, name: str, disabled: bool) -> Person:
    """Disable or enable a person. Their keys stay, but do not work while they are disabled.

    Raises:
        NotFound: no such person.
    """
    person = require_person(change.tx, change.tenant, name)
    if person.disabled is not disabled:
        change.tx.execute(
            "UPDATE people SET disabled = ? WHERE tenant = ? AND name = ?", (disabled, person.tenant, person.name)
        )
        event = PersonChanged(
            person.id, "disabled" if disabled else "enabled", *_rights_lists(person.rights), change.by
        )
        change.publish.publish(event)
    return replace(person, disabled=disabled)


def delete_person(change: AuditedTransaction, person: Person) -> None:
    """Delete a person with their roles, scopes and memberships. All else of theirs goes in `approvals/removal.py`."""
    change.tx.execute("DELETE FROM people WHERE tenant = ? AND name = ?", (person.tenant, person.name))
    change.publish.publish(PersonChanged(person.id, "removed", (), (), change.by))


def _person_from_row(tx: Transaction, row: Row) -> Person:
    rights = load_rights(tx, row["tenant"], row["name"])
    fields: Row = {**row, "disabled": bool(row["disabled"]), "rights": rights}
    return Person(**fields)


def _write_rights(change: AuditedTransaction, person: str, before: Rights, after: Rights) -> None:
    for table, column, had, has in (
        ("person_roles", "role", before.roles, after.roles),
        ("person_scopes", "scope", before.scopes, after.scopes),
    ):
        for value in sorted(has - had):
            change.tx.execute(
                f"INSERT INTO {table} (tenant, person, {column}) VALUES (?, ?, ?)",  # noqa: S608  # our own tables
                (change.tenant, person, value),
            )
        for value in sorted(had - has):
            change.tx.execute(
                f"DELETE FROM {table} WHERE tenant = ? AND person = ? AND {column} = ?",  # noqa: S608
                (change.tenant, person, value),
            )


def _rights_lists(rights: Rights) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(rights.roles)), tuple(sorted(rights.scopes))


APPROVER_ROLE = "approver"

T = TypeVar("T")


def count_approvers(tx: Transaction, tenant: str) -> int:
    """Count the enabled people with an approving role; in the default tenant, plus the operator of this host."""
    approvers = [
        person
        for person in list_people(tx, tenant)
        if not person.disabled and {APPROVER_ROLE, OPERATOR} & person.rights.roles
    ]
    return len(approvers) + (tenant == DEFAULT_TENANT)


def detect_second_approver(change: AuditedTransaction, write: Callable[[AuditedTransaction], T]) -> tuple[T, bool]:
    """Run a change; return its result and whether it gave the tenant its second approver.

    From then on nobody can approve their own requests, so the person making the change should be told.
    """
    before = count_approvers(change.tx, change.tenant)
    result = write(change)
    return result, before <= 1 < count_approvers(change.tx, change.tenant)
