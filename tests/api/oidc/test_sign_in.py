"""People sign in with a real provider, from a browser that keeps its cookies; and others who would like to."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.api.oidc.signing_in import CLIENT, Place, place

from fixtures.browsing import Browser, Page
from fixtures.identity_provider import IdentityProvider, identity_provider, new_key

ANN = {"email": "ann@example.org", "email_verified": True, "name": "Ann Lee"}
BOB = {"email": "bob@example.org", "email_verified": True}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place, None, None]:
    with identity_provider() as provider, place(provider, tmp_path_factory.mktemp("signing_in")) as started:
        yield started


@pytest.fixture
def here(shared: Place) -> Place:
    """The same daemon for every test, with a provider that is honest again."""
    provider = shared.provider
    provider.users = {"sub-ann": dict(ANN), "sub-bob": dict(BOB)}
    provider.says, provider.about, provider.forge, provider.thin = {}, {}, None, False
    return shared


def refused(page: Page, code: str, status: int = 403) -> dict[str, Any]:
    said = json.loads(page.text)
    assert (page.status, said["code"]) == (status, code), said
    assert not [one for one in page.headers.get_all("set-cookie", []) if "session" in one]
    return said


def signed_in(place: Place, browser: Browser) -> bool:
    return browser.open(f"{place.url}/api/v1/plugins").status == 200


def test_somebody_signs_in_and_has_a_session_as_themselves(here: Place) -> None:
    browser = Browser()
    assert not signed_in(here, browser)
    came = here.sign_in(browser, "sub-ann", "/healthz")
    assert (came.status, came.location) == (303, f"{here.url}/healthz")
    assert signed_in(here, browser)
    assert not signed_in(here, Browser())
    record = here.paddock("ledger", "tail", "--json").out
    assert '"session.opened"' in record and '"user:ann@example.org"' in record
    assert here.paddock("user", "identity", "list", "ann@example.org", "--json").json["identities"] == [
        {"issuer": here.provider.issuer, "subject": "sub-ann"}
    ]


def test_the_provider_is_asked_with_pkce_state_and_nonce_and_each_time_with_others(here: Place) -> None:
    asked = [parse_qs(urlsplit(Browser().open(f"{here.url}/auth/oidc/start").location).query) for _ in range(2)]
    for one in asked:
        assert one["code_challenge_method"] == ["S256"] and one["response_type"] == ["code"]
        assert one["redirect_uri"] == [here.callback] and one["client_id"] == [CLIENT]
        assert one["scope"] == ["openid email profile"]
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name]


def test_beginning_changes_nothing_and_what_the_browser_keeps_is_sealed_and_short_lived(here: Place) -> None:
    before = here.paddock("ledger", "tail", "--json").out
    page = Browser().open(f"{here.url}/auth/oidc/start")
    (cookie,) = page.headers.get_all("set-cookie", [])
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Max-Age=600" in cookie
    assert parse_qs(urlsplit(page.location).query)["state"][0] not in cookie
    assert page.headers["cache-control"] == "no-store" and page.headers["referrer-policy"] == "no-referrer"
    assert here.paddock("ledger", "tail", "--json").out == before


@pytest.mark.parametrize("after", ["https://evil.example", "//evil.example", "/%5Cevil.example"])
def test_nobody_is_led_to_another_host_by_signing_in(here: Place, after: str) -> None:
    assert here.sign_in(Browser(), "sub-ann", after).location == f"{here.url}/"


def test_a_wrong_state_signs_nobody_in(here: Place) -> None:
    browser = Browser()
    back = here.go(browser, "sub-ann").location
    state = parse_qs(urlsplit(back).query)["state"][0]
    for instead in (f"state={'x' * len(state)}", "state=", "stat=x"):
        refused(browser.open(back.replace(f"state={state}", instead)), "sign_in.not_begun")
    assert not signed_in(here, browser)


def test_a_link_that_somebody_else_began_signs_nobody_in(here: Place) -> None:
    """Login CSRF: the attacker signs in, and has the victim open the way back."""
    back = here.go(Browser(), "sub-bob").location
    victim = Browser()
    refused(victim.open(back), "sign_in.not_begun")
    victim.open(f"{here.url}/auth/oidc/start")  # also while the victim is about to sign in themselves
    refused(victim.open(back), "sign_in.not_begun")


def test_a_code_is_good_once(here: Place) -> None:
    browser = Browser()
    back = here.go(browser, "sub-ann").location
    kept = [(one.name, one.value) for one in browser.cookies if "sign-in" in one.name]
    assert browser.open(back).status == 303
    refused(browser.open(back), "sign_in.not_begun")  # the browser has forgotten the flow
    again = Browser()
    refused(again.open(back, cookie="; ".join(f"{name}={value}" for name, value in kept)), "sign_in.code_refused")


def test_a_code_without_the_verifier_of_its_sign_in_is_worth_nothing(here: Place) -> None:
    """A code that was intercepted, in a sign-in of the thief's own: PKCE."""
    stolen = parse_qs(urlsplit(here.go(Browser(), "sub-ann").location).query)["code"][0]
    thief = Browser()
    back = here.go(thief, "sub-bob").location
    own = parse_qs(urlsplit(back).query)["code"][0]
    refused(thief.open(back.replace(own, stolen)), "sign_in.code_refused")


def test_another_providers_answer_is_refused(here: Place) -> None:
    browser = Browser()
    back = here.go(browser, "sub-ann").location
    assert "iss=" in back
    refused(browser.open(back.replace("iss=http", "iss=https")), "sign_in.not_begun")
    refused(browser.open(back.partition("&iss=")[0]), "sign_in.not_begun")


def test_a_person_is_told_on_a_page_and_a_program_in_json(here: Place) -> None:
    page = Browser().open(here.callback, accept="text/html,application/xhtml+xml")
    assert (page.status, page.headers.get_content_type()) == (403, "text/html")
    assert "was not begun here" in page.text and "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    refused(Browser().open(here.callback), "sign_in.not_begun")


def test_whoever_is_not_signed_in_is_shown_the_way_to_the_provider_and_comes_back(here: Place) -> None:
    page = Browser().open(f"{here.url}/plugins", accept="text/html")
    assert (page.status, 'href="/auth/oidc/start?next=/plugins"' in page.text) == (401, True)


def test_whoever_says_no_at_the_provider_is_not_signed_in(here: Place) -> None:
    browser = Browser()
    said = refused(here.sign_in(browser, ""), "sign_in.denied")
    assert "access_denied" in said["detail"]


def unsigned(token: str) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    return f"{head}.{token.split('.')[1]}."


def by_somebody_else(token: str) -> str:
    return jwt.encode({"alg": "RS256"}, claims(token), new_key())


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


@pytest.mark.parametrize(
    ("says", "forge", "reason"),
    [
        ({"nonce": "of another sign-in"}, None, "nonce"),
        ({"aud": "another-client"}, None, "audience"),
        ({"aud": [CLIENT, "another-client"]}, None, "authorized_party"),
        ({"iss": "https://other.example"}, None, "issuer"),
        ({"exp": 1_000_000_000}, None, "expired"),
        ({"nbf": 32_503_680_000}, None, "not_yet_valid"),
        ({}, unsigned, "algorithm"),
        ({}, by_somebody_else, "signature"),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_an_id_token_that_proves_nothing_signs_nobody_in(
    here: Place, says: dict[str, Any], forge: Any, reason: str
) -> None:
    here.provider.says, here.provider.forge = says, forge
    browser = Browser()
    said = refused(here.sign_in(browser, "sub-ann"), "sign_in.bad_token")
    assert said["details"] == {"reason": reason}
    assert not signed_in(here, browser)


def test_an_id_token_signed_with_the_public_key_as_a_password_signs_nobody_in(here: Place) -> None:
    import hashlib
    import hmac

    (key,) = here.provider.keys.keys
    assert isinstance(key, RSAKey)
    password = key.as_pem(private=False)

    def forged(token: str) -> str:
        head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": key.kid}).encode()).decode().rstrip("=")
        body = f"{head}.{token.split('.')[1]}"
        made = hmac.digest(password, body.encode(), hashlib.sha256)
        return f"{body}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"

    here.provider.forge = forged
    assert refused(here.sign_in(Browser(), "sub-ann"), "sign_in.bad_token")["details"] == {"reason": "algorithm"}


def test_whoever_is_unknown_is_refused_and_that_is_recorded(here: Place) -> None:
    refused(here.sign_in(Browser(), "sub-bob"), "sign_in.unknown")
    record = here.paddock("ledger", "tail", "--type", "sign_in.refused", "--json").out
    assert '"user:bob@example.org"' in record and '"sign_in.unknown"' in record


def test_an_address_that_the_provider_has_not_verified_names_nobody(here: Place) -> None:
    here.provider.users["sub-thief"] = {"email": "ann@example.org", "email_verified": False}
    refused(here.sign_in(Browser(), "sub-thief"), "sign_in.unknown")


def test_an_address_in_other_hands_opens_nothing(here: Place) -> None:
    assert here.sign_in(Browser(), "sub-ann").status == 303
    here.provider.users["sub-heir"] = dict(ANN)
    refused(here.sign_in(Browser(), "sub-heir"), "sign_in.other_identity")


def test_a_provider_that_tells_the_rest_only_to_who_asks_is_asked(here: Place) -> None:
    here.provider.thin = True
    asked = here.provider.asked.count("/userinfo")
    assert here.sign_in(Browser(), "sub-ann").status == 303
    assert here.provider.asked.count("/userinfo") == asked + 1


def test_whoever_is_disabled_neither_signs_in_nor_goes_on(here: Place) -> None:
    browser = Browser()
    here.sign_in(browser, "sub-ann")
    assert signed_in(here, browser)
    here.paddock("user", "disable", "ann@example.org")
    try:
        assert not signed_in(here, browser)
        refused(here.sign_in(Browser(), "sub-ann"), "principal.ended")
    finally:
        here.paddock("user", "enable", "ann@example.org")


def test_people_of_allowed_domains_are_added_with_the_roles_of_their_groups(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    provider.users["sub-eve"] = {"email": "eve@evil.example", "email_verified": True}
    provider.users["sub-bob"]["groups"] = ["Admins"]
    rules = {"OIDC_CREATE": "true", "OIDC_ALLOWED_DOMAINS": "example.org", "OIDC_ROLES": "Admins=operator"}
    with place(provider, tmp_path, rules, public=True) as here:
        refused(here.sign_in(Browser(), "sub-eve"), "sign_in.not_allowed")
        here.paddock("user", "add", "eve@evil.example")
        for said in (provider.users["sub-eve"], {"email": "eve@evil.example"}):
            token = provider.access_token("sub-eve", aud=f"{here.url}/mcp", **said)
            answer = here.daemon.ask("GET", "/me", authorization=f"Bearer {token}")
            assert answer.status in (401, 403), "nor with a token, which somebody of her name could have"
        here.paddock("user", "remove", "eve@evil.example", "--yes")
        assert here.sign_in(Browser(), "sub-bob").status == 303
        assert here.paddock("user", "show", "bob@example.org", "--json").json["roles"] == ["member", "operator"]
        provider.users["sub-bob"]["groups"] = []
        assert here.sign_in(Browser(), "sub-bob").status == 303
        assert here.paddock("user", "show", "bob@example.org", "--json").json["roles"] == ["member"]
        listed = [one["name"] for one in here.paddock("user", "list", "--json").json["people"]]
        assert listed == ["ann@example.org", "bob@example.org"]
