"""Who people are at an identity provider."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.principals.conftest import ACME, Office

from paddock.core.errors import Conflict, Denied, NotFound
from paddock.core.events.principals import IdentityLinked
from paddock.principals.identities import (
    ExternalIdentity,
    SignInProfile,
    find_linked_person,
    link_identity,
    list_identities,
    sign_in_person,
    unlink_identity,
)
from paddock.principals.people import Person, delete_person, find_person, require_person, set_disabled

ISSUER = "https://login.example.org"
ANN = ExternalIdentity(ISSUER, "sub-ann")


def arriving(office: Office, arrival: SignInProfile, *, create: bool = False) -> Person:
    return office.change(lambda change: sign_in_person(change, arrival, create=create))


def test_somebody_is_known_by_their_name_once_and_by_the_providers_own_name_for_them_from_then_on(
    office: Office,
) -> None:
    assert arriving(office, SignInProfile(ANN, "ann")).name == "ann"
    assert IdentityLinked("user:ann", ISSUER, "linked", "local:ada") in office.told
    # Another name at the provider is the same person still.
    assert arriving(office, SignInProfile(ANN, "ann.married")).name == "ann"
    # And her old name in somebody else's hands is nobody.
    with pytest.raises(Denied) as refused:
        arriving(office, SignInProfile(ExternalIdentity(ISSUER, "sub-thief"), "ann"), create=True)
    assert refused.value.error_code == "sign_in.other_identity"


def test_whoever_is_unknown_is_refused_and_with_create_they_are_added_as_a_member(office: Office) -> None:
    bob = SignInProfile(ExternalIdentity(ISSUER, "sub-bob"), "bob@example.org", "Bob")
    with pytest.raises(Denied) as refused:
        arriving(office, bob)
    assert refused.value.error_code == "sign_in.unknown"
    made = arriving(office, bob, create=True)
    assert (made.name, made.display_name, made.rights.roles) == ("bob@example.org", "Bob", frozenset({"member"}))


def test_whoever_has_no_name_that_counts_is_not_even_added(office: Office) -> None:
    with pytest.raises(Denied) as refused:
        arriving(office, SignInProfile(ExternalIdentity(ISSUER, "sub-bob"), None), create=True)
    assert refused.value.error_code == "sign_in.unknown"


def test_whoever_is_disabled_does_not_sign_in_and_nothing_of_them_changes(office: Office) -> None:
    office.change(lambda change: set_disabled(change, "ann", True))
    with pytest.raises(Denied) as refused:
        arriving(office, SignInProfile(ANN, "ann", roles=frozenset({"operator"})))
    assert refused.value.error_code == "principal.ended"
    ann = office.read(lambda tx: require_person(tx, ACME, "ann"))
    assert "operator" not in ann.rights.roles
    assert office.read(lambda tx: list_identities(tx, ann)) == []


def test_a_provider_gives_and_takes_the_roles_and_groups_that_are_its_to_give_and_no_others(office: Office) -> None:
    before = office.read(lambda tx: require_person(tx, ACME, "ann")).rights.roles
    given = SignInProfile(
        ANN,
        "ann",
        roles=frozenset({"approver"}),
        managed_roles=frozenset({"approver", "operator"}),
        groups=frozenset({"night-shift"}),
        managed_groups=frozenset({"night-shift"}),
    )
    ann = arriving(office, given)
    assert ann.rights.roles == before | {"approver"}
    assert ann.rights.groups == {"night-shift"}
    ann = arriving(office, replace(given, roles=frozenset(), groups=frozenset()))
    assert ann.rights.roles == before - {"approver", "operator"}
    assert ann.rights.groups == frozenset()


def test_an_identity_is_linked_once_and_can_be_forgotten(office: Office) -> None:
    office.change(lambda change: link_identity(change, "ann", ANN))
    office.change(lambda change: link_identity(change, "ann", ANN))  # the same again is nothing
    with pytest.raises(Conflict):
        office.change(lambda change: link_identity(change, "ann", ExternalIdentity(ISSUER, "sub-other")))
    office.change(lambda change: unlink_identity(change, "ann", ISSUER))
    with pytest.raises(NotFound):
        office.change(lambda change: unlink_identity(change, "ann", ISSUER))
    assert arriving(office, SignInProfile(ExternalIdentity(ISSUER, "sub-other"), "ann")).name == "ann"


def test_a_removed_persons_identity_goes_with_them(office: Office) -> None:
    arriving(office, SignInProfile(ANN, "ann"))
    office.change(lambda change: delete_person(change, require_person(change.tx, ACME, "ann")))
    assert office.read(lambda tx: find_linked_person(tx, ACME, ANN, None)) is None
    assert office.read(lambda tx: find_person(tx, ACME, "ann")) is None
