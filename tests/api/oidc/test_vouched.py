"""What a provider's claims mean."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.config.oidc_settings import OidcSettings, check_issuer, check_pairs
from paddock.core.errors import Denied
from paddock.web.oidc.claims import (
    granted_rights,
    merge_claims,
    needs_userinfo,
    oauth_scope_for,
    person_name,
    person_name_in_token,
    sign_in_profile,
    supported_scopes,
)

ANN: dict[str, Any] = {
    "iss": "https://login.example.org",
    "sub": "1",
    "email": "Ann@Example.org",
    "email_verified": True,
    "name": "Ann Lee",
    "groups": ["Admins", "cn=staff,dc=example"],
}


def test_somebody_is_named_by_an_address_that_the_provider_has_verified() -> None:
    assert person_name(ANN, OidcSettings()) == "ann@example.org"
    for verified in (False, None, "true", 1):
        assert person_name(ANN | {"email_verified": verified}, OidcSettings()) is None


def test_somebody_is_named_by_whichever_claim_the_settings_say_where_that_can_be_a_name() -> None:
    by_user_name = OidcSettings(name_claim="preferred_username")
    assert person_name({"preferred_username": "ANN"}, by_user_name) == "ann"
    for odd in (None, 7, "", "a/b", "root\n", "x" * 129, ["ann"]):
        assert person_name({"preferred_username": odd}, by_user_name) is None


def test_what_the_provider_tells_who_asks_fills_in_and_verifies_no_address_but_its_own() -> None:
    thin = {"iss": ANN["iss"], "sub": "1"}
    assert needs_userinfo(thin, OidcSettings()) and not needs_userinfo(ANN, OidcSettings())
    assert needs_userinfo(thin | {"preferred_username": "ann"}, OidcSettings(name_claim="preferred_username")) is False
    assert merge_claims(thin, ANN) == ANN
    mixed = merge_claims(thin | {"email": "root@example.org"}, {"email": "ann@example.org", "email_verified": True})
    assert person_name(mixed, OidcSettings()) == "ann@example.org"
    assert merge_claims(ANN, {"sub": "2", "email": "x@example.org", "email_verified": True}) == ANN


def test_roles_and_groups_come_from_groups_of_the_provider() -> None:
    settings = OidcSettings(
        roles=("Admins=operator", "admins=approver", "cn=staff,dc=example=member"), groups=("Admins=night-shift",)
    )
    came = sign_in_profile(ANN, settings)
    assert came.roles == {"operator", "member"}  # `admins` is another group than `Admins`
    assert came.managed_roles == {"operator", "approver", "member"}
    assert (came.groups, came.managed_groups) == ({"night-shift"}, {"night-shift"})
    assert (came.identity.subject, came.name, came.display_name) == ("1", "ann@example.org", "Ann Lee")


@pytest.mark.parametrize(
    ("settings", "claims", "let_in"),
    [
        (OidcSettings(allowed_domains=("example.org",)), {}, True),
        (OidcSettings(allowed_domains=("example.com",)), {}, False),
        (OidcSettings(allowed_domains=("example.org",)), {"email_verified": False}, False),
        (OidcSettings(allowed_domains=("example.org",)), {"email": "ann@evil.example.org"}, False),
        (OidcSettings(allowed_domains=("example.org",)), {"email": "ann@example.org@evil.example"}, False),
        (OidcSettings(allowed_domains=("example.org",)), {"email": None}, False),
        (OidcSettings(allowed_groups=("Admins",)), {}, True),
        (OidcSettings(allowed_groups=("Admins",)), {"groups": "Admins"}, True),
        (OidcSettings(allowed_groups=("Admins",)), {"groups": ["admins"]}, False),
        (OidcSettings(allowed_groups=("Admins",)), {"groups": {"Admins": True}}, False),
        (OidcSettings(allowed_groups=("Admins",), allowed_domains=("example.com",)), {}, False),
    ],
)
def test_only_people_of_the_allowed_domains_and_groups_are_let_in(
    settings: OidcSettings, claims: dict[str, Any], let_in: bool
) -> None:
    if let_in:
        assert sign_in_profile(ANN | claims, settings).name == "ann@example.org"
        return
    with pytest.raises(Denied) as refused:
        sign_in_profile(ANN | claims, settings)
    assert refused.value.error_code == "sign_in.not_allowed"


def test_an_access_token_names_somebody_only_where_it_says_that_they_are_let_in() -> None:
    staff = OidcSettings(name_claim="preferred_username", allowed_domains=("example.org",), allowed_groups=("Admins",))
    ann = ANN | {"preferred_username": "ann"}
    assert (
        person_name_in_token(ann, staff)
        == person_name_in_token({"preferred_username": "ann"}, OidcSettings(name_claim=staff.name_claim))
        == "ann"
    )
    for unsaid in ("email", "email_verified", "groups"):
        assert person_name_in_token({name: value for name, value in ann.items() if name != unsaid}, staff) is None
    for outside in ({"email": "ann@evil.example"}, {"email_verified": False}, {"groups": []}):
        with pytest.raises(Denied, match="are not let in"):
            person_name_in_token(ann | outside, staff)


def test_scopes_of_a_token_stand_for_what_the_settings_say_and_for_nothing_else() -> None:
    settings = OidcSettings(token_scopes=("mail=email:send", "ops=role:operator"), required_scope="paddock")
    assert granted_rights(frozenset({"mail", "ops", "email:read", "role:approver"}), settings) == (
        {"operator"},
        {"email:send"},
    )
    assert supported_scopes(settings) == ["paddock", "mail", "ops"]
    assert oauth_scope_for("email:send", settings) == "mail"
    assert oauth_scope_for("files:read", settings) is None


def test_an_issuer_is_reached_over_tls_or_on_this_machine() -> None:
    for good in (None, "https://a.example", "https://a.example/realms/x", "http://127.0.0.1:8080", "http://[::1]:1/a"):
        assert check_issuer(good) is None
    for bad in ("http://a.example", "http://127.0.0.1.evil.example", "http://localhost.evil.example", "ftp://a", "a",
                "https://a.example/?b=c", "https://a.example/#b"):  # fmt: skip
        assert check_issuer(bad) is not None
    assert check_pairs(("Night Shift=nights",)) is None
    for bad in ("admins", "=operator", "admins=", "admins=two words"):
        assert check_pairs((bad,)) is not None
