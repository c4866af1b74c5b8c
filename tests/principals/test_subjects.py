"""Whoever acts, by name: with what they may do right now, and nobody who may not any more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.principals.conftest import NOON, Office

from paddock.core.call import Principal
from paddock.core.errors import Denied, NotFound, OperatorError
from paddock.core.ids import PrincipalId, Tenant
from paddock.principals.api_keys import revoke_key
from paddock.principals.groups import add_group, change_member
from paddock.principals.people import set_disabled
from paddock.principals.principal_name import resolve_principal


def named(office: Office, name: str, **more: bool) -> Principal:
    return office.read(lambda tx: resolve_principal(tx, name, "acme", office.now, **more))


def test_a_person_comes_with_their_roles_scopes_groups_and_tenant(office: Office) -> None:
    office.change(lambda change: add_group(change, "night-shift"))
    office.change(lambda change: change_member(change, "night-shift", "ann"))

    assert named(office, "user:ann") == Principal(
        PrincipalId("user:ann"),
        frozenset({"email:send"}),
        frozenset({"member", "approver"}),
        kind="person",
        groups=frozenset({"night-shift"}),
        tenant=Tenant("acme"),
    )
    assert named(office, "user:ann", interactive=True).interactive


def test_agents_adapters_and_plugins_have_no_rights_of_their_own_and_are_never_human(office: Office) -> None:
    for word in ("agent", "adapter", "plugin"):
        who = named(office, f"{word}:main/researcher", interactive=True)
        assert (who.kind, who.roles, who.scopes, who.interactive) == (word, set(), set(), False)


def test_whoever_sits_at_the_machine_is_its_operator(office: Office) -> None:
    ada = named(office, "local:ada")
    assert (ada.kind, ada.roles, ada.person) == ("local", {"operator"}, "local:ada")


def test_a_key_is_never_human_whoever_names_it(office: Office) -> None:
    key, _ = office.key()
    who = named(office, f"key:{key.id}", interactive=True)
    assert (who.kind, who.interactive, who.owner) == ("key", False, "user:ann")


def test_the_name_may_say_whose_tenant_it_is_of(office: Office) -> None:
    found = office.read(lambda tx: resolve_principal(tx, "acme/user:ann", "default", NOON))
    assert (found.id, found.tenant) == ("user:ann", "acme")
    with pytest.raises(NotFound):
        office.read(lambda tx: resolve_principal(tx, "user:ann", "default", NOON))
    with pytest.raises(NotFound, match="no tenant 'nowhere'"):
        office.read(lambda tx: resolve_principal(tx, "nowhere/agent:main", "default", NOON))


def test_nobody_who_was_stopped_is_let_act_and_it_says_why(office: Office) -> None:
    revoked, expiring, theirs = office.key()[0], office.key(expires_at=NOON + timedelta(days=1))[0], office.key()[0]
    office.change(lambda change: revoke_key(change, revoked.id))
    for where, name, why in (
        (office, f"key:{revoked.id}", "is revoked"),
        (office.later(days=1), f"key:{expiring.id}", "is expired"),
    ):
        with pytest.raises(Denied, match=why):
            named(where, name)
    office.change(lambda change: set_disabled(change, "ann", True))
    for name in ("user:ann", f"key:{theirs.id}"):
        with pytest.raises(Denied, match="disabled"):
            named(office, name)


@pytest.mark.parametrize("name", ["", "ann", "user:", "robot:x", "user:ann\n", "a/b/user:ann", "user:a b", "USER:ann"])
def test_what_names_nobody_is_told_how_a_name_looks(office: Office, name: str) -> None:
    with pytest.raises(OperatorError) as refused:
        named(office, name)
    assert (refused.value.error_code, "user:ann" in refused.value.hint) == ("principal.unclear", True)
