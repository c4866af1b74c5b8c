"""Tenants, people and groups: what is kept of them, what is told, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.principals.conftest import Office

from paddock.approvals.removal import remove_group, remove_person
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Conflict, NotFound, OperatorError
from paddock.core.events.principals import GroupChanged, PersonAdded, PersonChanged, TenantCreated, TenantRemoved
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.api_keys import list_keys
from paddock.principals.groups import add_group, change_member, list_groups
from paddock.principals.people import add_person, change_rights, find_person, list_people, require_person, set_disabled
from paddock.principals.tenants import add_tenant, list_tenants, remove_tenant
from paddock.store.database import Transaction


def test_the_default_tenant_exists_always_and_cannot_be_removed(office: Office) -> None:
    assert [one.name for one in office.read(list_tenants)] == ["default", "acme"]
    with pytest.raises(OperatorError, match="cannot be removed"):
        office.change(lambda change: remove_tenant(change, "default"), "default")


def test_a_tenant_is_made_once_and_goes_when_nothing_belongs_to_it(office: Office) -> None:
    with pytest.raises(Conflict):
        office.change(lambda change: add_tenant(change, "acme"), "default")
    office.change(lambda change: add_tenant(change, "empty"), "default")
    office.change(lambda change: remove_tenant(change, "empty"), "default")

    assert [one.name for one in office.read(list_tenants)] == ["default", "acme"]
    assert office.told[-2:] == [TenantCreated("empty", "local:ada"), TenantRemoved("empty", "local:ada")]


ROWS = {
    "people": ("people", {"name": "x", "display_name": "", "disabled": 0, "created_at": ""}),
    "groups": ("groups", {"name": "g", "title": "", "created_at": ""}),
    "grants of plugins": (
        "grants",
        {"plugin": "notes", "enabled": 1, "capabilities": "[]", "digest": "", "changed_at": ""},
    ),
}


def insert(tx: Transaction, table: str, **values: Any) -> None:
    marks = ", ".join("?" * len(values))
    tx.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))


def keep(tx: Transaction, kept: str, tenant: str) -> None:
    """Let one thing of this kind belong to a tenant."""
    if kept == "ledger entries":
        TransactionLedger(tx, SystemClock(), SystemRandom(), tenant).publish(TenantCreated(tenant, "local:ada"))
    else:
        table, values = ROWS[kept]
        insert(tx, table, tenant=tenant, **values)


@pytest.mark.parametrize("kept", [*ROWS, "ledger entries"])
def test_a_tenant_that_something_belongs_to_stays_and_says_what_to_do(office: Office, kept: str) -> None:
    office.change(lambda change: add_tenant(change, "beta"), "default")
    plugin = {"name": "notes", "title": "", "default_version": "1", "local": 0, "installed_at": ""}
    office.database.write(lambda tx: insert(tx, "plugins", **plugin))
    for tenant in ("acme", "beta"):
        office.database.write(lambda tx, tenant=tenant: keep(tx, kept, tenant))

    with pytest.raises(Conflict) as refused:
        office.change(lambda change: remove_tenant(change, "beta"), "default")

    assert refused.value.message == f"the tenant beta still has {kept} (1)"
    assert refused.value.hint and refused.value.action is not None


def test_people_are_kept_with_their_roles_and_everything_is_told(office: Office) -> None:
    office.change(lambda change: change_rights(change, "ann", "roles", add=["operator"], remove=["approver"]))
    office.change(lambda change: change_rights(change, "user:ann", "scopes", add=["notes.read"]))
    office.change(lambda change: set_disabled(change, "ann", True))
    ann = office.read(lambda tx: require_person(tx, "acme", "ann"))

    assert (ann.rights.roles, ann.rights.scopes, ann.disabled) == (
        {"member", "operator"}, {"email:send", "notes.read"}, True,
    )  # fmt: skip
    assert PersonAdded("user:ann", ("approver", "member"), ("email:send",), "local:ada") in office.told
    assert [one.change for one in office.told if isinstance(one, PersonChanged)] == ["roles", "scopes", "disabled"]


def test_what_changes_nothing_is_not_told(office: Office) -> None:
    before = len(office.told)
    office.change(lambda change: change_rights(change, "ann", "roles", add=["member"], remove=["guest"]))
    office.change(lambda change: set_disabled(change, "ann", False))
    assert len(office.told) == before


def test_one_name_in_two_tenants_is_two_people(office: Office) -> None:
    office.change(lambda change: add_person(change, "ann", roles=["guest"]), "default")
    with pytest.raises(Conflict):
        office.change(lambda change: add_person(change, "ann"))

    assert office.read(lambda tx: require_person(tx, "default", "ann")).rights.roles == {"guest"}
    assert office.read(lambda tx: require_person(tx, "acme", "ann")).rights.roles == {"member", "approver"}
    with pytest.raises(NotFound, match="no tenant 'nowhere'"):
        office.change(lambda change: add_person(change, "bob"), "nowhere")


@pytest.mark.parametrize("name", ["", "Ann", "ann b", "ann/b", "-ann", "x" * 129, "änn", "ann\n", "user:ann"])
def test_names_that_would_mislead_somewhere_are_refused(office: Office, name: str) -> None:
    with pytest.raises(OperatorError) as refused:
        office.change(lambda change: add_person(change, name))
    assert refused.value.error_code == "principal.bad_name"
    assert office.read(lambda tx: find_person(tx, "acme", name)) is None


def test_a_group_knows_its_members_and_everything_is_told(office: Office) -> None:
    office.change(lambda change: add_person(change, "bob"))
    office.change(lambda change: add_group(change, "night-shift"))
    for name in ("bob", "ann", "ann"):
        office.change(lambda change, name=name: change_member(change, "night-shift", name))
    office.change(lambda change: change_member(change, "night-shift", "bob", remove=True))

    assert [(one.name, one.members) for one in office.read(lambda tx: list_groups(tx, "acme"))] == [
        ("night-shift", ("ann",))
    ]
    assert office.read(lambda tx: require_person(tx, "acme", "ann")).rights.groups == {"night-shift"}
    assert [(one.change, one.person) for one in office.told if isinstance(one, GroupChanged)] == [
        ("added", None), ("member_added", "user:bob"), ("member_added", "user:ann"), ("member_removed", "user:bob"),
    ]  # fmt: skip
    office.removal(lambda change, unit: remove_group(change, unit, "night-shift"))
    assert office.read(lambda tx: require_person(tx, "acme", "ann")).rights.groups == set()
    with pytest.raises(NotFound):
        office.change(lambda change: change_member(change, "night-shift", "ann"))


def test_somebody_who_is_removed_leaves_nothing_to_the_next_of_that_name(office: Office) -> None:
    office.change(lambda change: add_group(change, "night-shift"))
    office.change(lambda change: change_member(change, "night-shift", "ann"))
    office.key()
    office.removal(lambda change, unit: remove_person(change, unit, "ann"))
    assert office.read(lambda tx: list_people(tx, "acme")) == []

    office.change(lambda change: add_person(change, "ann", roles=()))

    ann = office.read(lambda tx: require_person(tx, "acme", "ann"))
    assert (ann.rights.roles, ann.rights.scopes, ann.rights.groups) == (set(), set(), set())
    assert office.read(lambda tx: list_keys(tx, "acme")) == []
