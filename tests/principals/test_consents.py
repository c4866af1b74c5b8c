"""A person's yes to one callable: theirs alone, kept, told, and taken back."""

from __future__ import annotations

import pytest
from tests.principals.conftest import Office

from paddock.approvals.removal import remove_person
from paddock.core.errors import NotFound
from paddock.core.events.principals import ConsentGiven, ConsentRevoked
from paddock.principals.consents import (
    consented_names,
    delete_plugin_consents,
    give_consent,
    has_consent,
    list_consents,
    revoke_consent,
)


def stands(office: Office, person: str = "user:ann", tenant: str = "acme", callable_name: str = "send") -> bool:
    return office.read(lambda tx: has_consent(tx, tenant, person, "gmail", callable_name))


@pytest.mark.req("K-28")
def test_a_yes_is_one_persons_to_one_callable_in_one_tenant_and_can_be_taken_back(office: Office) -> None:
    assert not stands(office)
    office.change(lambda change: give_consent(change, "user:ann", "gmail", "send"))
    assert stands(office)
    assert not stands(office, "user:bob")
    assert not stands(office, tenant="default")
    assert not stands(office, callable_name="delete")
    assert office.read(lambda tx: consented_names(tx, "acme", "user:ann")) == {"gmail.send"}

    taken = office.later(hours=1).change(lambda change: revoke_consent(change, "user:ann", "gmail", "send"))

    assert not stands(office)
    assert taken.revoked_at == office.later(hours=1).now.isoformat()
    assert office.read(lambda tx: list_consents(tx, "acme")) == []
    assert office.read(lambda tx: list_consents(tx, "acme", revoked=True)) == [taken]
    assert office.told[-2:] == [
        ConsentGiven("user:ann", "gmail", "send", "local:ada"),
        ConsentRevoked("user:ann", "gmail", "send", "local:ada"),
    ]


def test_a_yes_that_stands_stays_as_it_was_given_and_one_taken_back_can_be_given_anew(office: Office) -> None:
    first = office.change(lambda change: give_consent(change, "user:ann", "gmail", "send"))
    again = office.later(hours=1).change(lambda change: give_consent(change, "user:ann", "gmail", "send"))
    assert again == first
    office.change(lambda change: revoke_consent(change, "user:ann", "gmail", "send"))
    with pytest.raises(NotFound):
        office.change(lambda change: revoke_consent(change, "user:ann", "gmail", "send"))
    office.later(hours=2).change(lambda change: give_consent(change, "user:ann", "gmail", "send"))

    assert stands(office)
    assert [type(one) for one in office.told if isinstance(one, ConsentGiven | ConsentRevoked)] == [
        ConsentGiven, ConsentRevoked, ConsentGiven,
    ]  # fmt: skip


def test_a_yes_goes_with_the_person_and_with_the_plugin(office: Office) -> None:
    office.change(lambda change: give_consent(change, "user:ann", "gmail", "send"))
    office.change(lambda change: give_consent(change, "local:ada", "gmail", "send"))
    office.removal(lambda change, unit: remove_person(change, unit, "ann"))
    assert (stands(office), stands(office, "local:ada")) == (False, True)

    gone = office.database.write(lambda tx: delete_plugin_consents(tx, "gmail"))

    assert [one.person for one in gone] == ["local:ada"]
    assert office.read(lambda tx: list_consents(tx, "acme", revoked=True)) == []
