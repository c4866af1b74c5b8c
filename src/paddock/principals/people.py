"""People of a tenant: what they are called, the roles and scopes they have, and whether they may act at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from paddock.core.errors import Conflict, NotFound
from paddock.core.events_principals import PersonAdded, PersonChanged
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.principals.change import Change
from paddock.principals.names import all_checked, checked
from paddock.principals.rights import Rights, rights_of
from paddock.principals.tenants import require_tenant
from paddock.store.transaction import Row, Transaction


@dataclass(frozen=True, slots=True)
class Person:
    """A person as they are kept."""

    tenant: Tenant
    name: str
    display_name: str
    disabled: bool
    created_at: str
    rights: Rights

    @property
    def id(self) -> PrincipalId:
        """What they are called where somebody acts."""
        return PrincipalId(f"user:{self.name}")


def people(tx: Transaction, tenant: str) -> list[Person]:
    """Everybody of a tenant, by name."""
    return [_person(tx, row) for row in tx.all("SELECT * FROM people WHERE tenant = ? ORDER BY name", (tenant,))]


def find_person(tx: Transaction, tenant: str, name: str) -> Person | None:
    row = tx.one("SELECT * FROM people WHERE tenant = ? AND name = ?", (tenant, name))
    return _person(tx, row) if row else None


def require_person(tx: Transaction, tenant: str, name: str) -> Person:
    """The person of that name; `user:ann` and `ann` are the same.

    Raises:
        NotFound: nobody in that tenant goes by it.
    """
    person = find_person(tx, tenant, name.removeprefix("user:"))
    if person is None:
        require_tenant(tx, tenant)
        elsewhere = "" if tenant == "default" else f" --tenant {tenant}"
        raise NotFound(
            f"nobody in the tenant {tenant} is called {printable(name, 80)!r}",
            code="person.not_found",
            hint=f"see 'paddock user list{elsewhere}', or add them: paddock user add NAME{elsewhere}",
        )
    return person


def add_person(
    change: Change, name: str, *, display_name: str = "", roles: Iterable[str] = ("member",), scopes: Iterable[str] = ()
) -> Person:
    """Add somebody to the change's tenant.

    Raises:
        NotFound: there is no such tenant.
        OperatorError: nobody, no role or no scope can be called that.
        Conflict: somebody is.
    """
    tx, tenant = change.tx, require_tenant(change.tx, change.tenant).name
    rights = Rights(all_checked("role", roles), all_checked("scope", scopes))
    person = Person(tenant, checked("person", name), display_name or name, False, change.now, rights)
    added = tx.execute(
        "INSERT INTO people (tenant, name, display_name, disabled, created_at) VALUES (?, ?, ?, 0, ?) "
        "ON CONFLICT (tenant, name) DO NOTHING",
        (tenant, person.name, person.display_name, person.created_at),
    )
    if not added:
        raise Conflict(
            f"somebody in the tenant {tenant} is called {name!r} already",
            code="person.exists",
            hint=f"see 'paddock user show {name}'",
        )
    _write_rights(change, person.name, Rights(), rights)
    change.publish.publish(PersonAdded(person.id, *_told(rights), change.by))
    return person


def change_rights(
    change: Change, name: str, what: Literal["roles", "scopes"], *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> Person:
    """Give somebody roles or scopes, and take others away. Their keys lose what they lose, at once.

    Raises:
        NotFound: nobody is called that.
        OperatorError: no role or scope can be.
    """
    person = require_person(change.tx, change.tenant, name)
    before = getattr(person.rights, what)
    after = (before | all_checked("role" if what == "roles" else "scope", add)) - frozenset(remove)
    rights = replace(person.rights, **{what: after})
    if after != before:
        _write_rights(change, person.name, person.rights, rights)
        change.publish.publish(PersonChanged(person.id, what, *_told(rights), change.by))
    return replace(person, rights=rights)


def set_disabled(change: Change, name: str, disabled: bool) -> Person:
    """Let somebody act no more, or again. Their keys stay and do not work meanwhile.

    Raises:
        NotFound: nobody is called that.
    """
    person = require_person(change.tx, change.tenant, name)
    if person.disabled is not disabled:
        change.tx.execute(
            "UPDATE people SET disabled = ? WHERE tenant = ? AND name = ?", (disabled, person.tenant, person.name)
        )
        told = PersonChanged(person.id, "disabled" if disabled else "enabled", *_told(person.rights), change.by)
        change.publish.publish(told)
    return replace(person, disabled=disabled)


def delete_person(change: Change, person: Person) -> None:
    """Remove somebody's row, roles, scopes and places in groups. All else of theirs goes in `policy/leaving.py`."""
    change.tx.execute("DELETE FROM people WHERE tenant = ? AND name = ?", (person.tenant, person.name))
    change.publish.publish(PersonChanged(person.id, "removed", (), (), change.by))


def _person(tx: Transaction, row: Row) -> Person:
    rights = rights_of(tx, row["tenant"], row["name"])
    facts: Row = {**row, "disabled": bool(row["disabled"]), "rights": rights}
    return Person(**facts)


def _write_rights(change: Change, person: str, before: Rights, after: Rights) -> None:
    for table, column, had, has in (
        ("person_roles", "role", before.roles, after.roles),
        ("person_scopes", "scope", before.scopes, after.scopes),
    ):
        for one in sorted(has - had):
            change.tx.execute(
                f"INSERT INTO {table} (tenant, person, {column}) VALUES (?, ?, ?)",  # noqa: S608  # our own tables
                (change.tenant, person, one),
            )
        for one in sorted(had - has):
            change.tx.execute(
                f"DELETE FROM {table} WHERE tenant = ? AND person = ? AND {column} = ?",  # noqa: S608
                (change.tenant, person, one),
            )


def _told(rights: Rights) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(rights.roles)), tuple(sorted(rights.scopes))
