"""Programs that act for a person with a provider's token."""

from __future__ import annotations

import pytest
from tests.principals.conftest import ACME, NOON, Office

from paddock.core.errors import Denied
from paddock.principals.identities import ExternalIdentity, find_token_principal, link_identity
from paddock.principals.people import set_disabled
from paddock.principals.principal_name import resolve_principal

ANN = ExternalIdentity("https://login.example.org", "sub-ann")
NONE: frozenset[str] = frozenset()


def test_a_token_acts_for_its_person_with_a_part_of_what_they_may_do_and_is_no_human(office: Office) -> None:
    office.change(lambda change: link_identity(change, "ann", ANN))
    held = office.read(
        lambda tx: find_token_principal(tx, ACME, ANN, None, NONE, frozenset({"email:send", "files:read"}))
    )
    assert (held.id, held.owner, held.person, held.kind) == ("token:ann", "user:ann", "user:ann", "key")
    assert held.scopes == {"email:send"}  # what she has not it has not either
    assert held.roles == {"member"}  # an approver only where it says so
    assert not held.interactive
    named = office.read(lambda tx: find_token_principal(tx, ACME, ANN, None, frozenset({"approver", "operator"}), NONE))
    assert named.roles == {"member", "approver"}
    assert named.scopes == NONE


def test_a_token_of_nobody_or_of_somebody_disabled_is_refused_in_the_same_words(office: Office) -> None:
    def refusal(name: str | None, tenant: str = ACME) -> str:
        with pytest.raises(Denied) as refused:
            office.read(lambda tx: find_token_principal(tx, tenant, ANN, name, NONE, NONE))
        assert refused.value.error_code == "auth.refused"
        return str(refused.value)

    words = {refusal(None), refusal("bob"), refusal("ann", "default")}
    office.change(lambda change: set_disabled(change, "ann", True))
    assert {refusal("ann")} == words


def test_a_name_counts_until_the_provider_is_known_to_have_another_one_for_them(office: Office) -> None:
    assert office.read(lambda tx: find_token_principal(tx, ACME, ANN, "ann", NONE, NONE)).id == "token:ann"
    office.change(lambda change: link_identity(change, "ann", ExternalIdentity(ANN.issuer, "sub-other")))
    with pytest.raises(Denied):
        office.read(lambda tx: find_token_principal(tx, ACME, ANN, "ann", NONE, NONE))


def test_a_call_that_waited_goes_on_with_what_the_person_has_then(office: Office) -> None:
    """Whoever asked is looked up by name when a yes comes, perhaps after the token's end."""
    again = office.read(lambda tx: resolve_principal(tx, "token:ann", ACME, NOON))
    assert (again.id, again.owner, again.kind, again.interactive) == ("token:ann", "user:ann", "key", False)
    assert (again.scopes, again.roles) == ({"email:send"}, {"member"})
    office.change(lambda change: set_disabled(change, "ann", True))
    with pytest.raises(Denied):
        office.read(lambda tx: resolve_principal(tx, "token:ann", ACME, NOON))
