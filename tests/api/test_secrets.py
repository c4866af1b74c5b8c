"""Secrets over HTTP: who may see that they are there, set and erase them. No value ever comes back."""

from __future__ import annotations

import pytest

from fixtures.people import Peopled, from_browser, signed_in


@pytest.fixture(scope="module")
def cookies(peopled: Peopled) -> dict[str, str]:
    return {"olga": signed_in(peopled, "olga"), "omar": signed_in(peopled, "omar", "--tenant", "acme")}


def test_an_operator_who_is_signed_in_sets_lists_and_erases_a_secret_of_their_tenant(
    peopled: Peopled, cookies: dict[str, str]
) -> None:
    path = "/secrets/mail%2Fapi_key"
    for version in (1, 2):
        stored = from_browser(peopled, cookies["omar"], "PUT", path, {"value": f"hunter{version}"})
        assert stored.status == 200, stored
        assert (stored.body["version"], stored.body["set_by"]) == (version, "user:omar")
    assert "log" not in stored.body, "paths of this machine are for those who are at it"

    shown = peopled.ask("omar", "GET", path).body
    assert shown == stored.body
    assert shown.keys() == {"name", "tenant", "scope", "owner", "version", "set_at", "set_by"}
    assert (shown["name"], shown["tenant"], shown["scope"], shown["owner"]) == ("mail/api_key", "acme", "system", None)
    assert peopled.ask("omar", "GET", "/secrets").body == {"tenant": "acme", "secrets": [shown]}
    assert peopled.ask("olga", "GET", "/secrets").body["secrets"] == []
    foreign = peopled.ask("olga", "GET", "/secrets?tenant=acme")
    assert (foreign.status, foreign.body["code"]) == (404, "tenant.not_found")

    erased = from_browser(peopled, cookies["omar"], "DELETE", path)
    assert erased.body == shown | {"removed": True}
    gone = from_browser(peopled, cookies["omar"], "DELETE", path)
    assert (gone.status, gone.body["code"]) == (404, "secret.not_found")


def test_programs_change_no_secret_and_members_do_not_see_which_there_are(peopled: Peopled) -> None:
    for method, body in (("PUT", {"value": "hunter2"}), ("DELETE", None)):
        refused = peopled.ask("olga", method, "/secrets/api_key", body)
        assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")
        assert peopled.ask("ann", method, "/secrets/api_key", body).body["code"] == "auth.not_for_you"
    for path in ("/secrets", "/secrets/api_key"):
        assert peopled.ask("ann", "GET", path).body["code"] == "auth.not_for_you"


def test_secrets_of_people_and_the_key_of_all_are_changed_at_the_machine_alone(
    peopled: Peopled, cookies: dict[str, str]
) -> None:
    path, body = "/secrets/api_key?owner=ann", {"value": "hunter2"}
    refused = from_browser(peopled, cookies["olga"], "PUT", path, body)
    assert (refused.status, refused.body["code"]) == (403, "auth.not_for_you")
    for rotated in (
        from_browser(peopled, cookies["olga"], "POST", "/secret-key/rotate", {}),
        peopled.ask("olga", "POST", "/secret-key/rotate", {}),
    ):
        assert (rotated.status, rotated.body["code"]) == (403, "auth.not_for_you")

    assert peopled.daemon.ask("PUT", path, body).body["owner"] == "user:ann"
    assert peopled.daemon.ask("POST", "/secret-key/rotate", {}).body["rotated"] == 1
    assert from_browser(peopled, cookies["olga"], "DELETE", path).body["removed"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/secrets/api_key", {"value": "hunter2" * 10_000}),
        ("/secrets/api_key", {"value": ["hunter2"]}),
        ("/secrets/api_key", {"valeu": "hunter2"}),
        ("/secrets/api_key", {"value": "hunter2", "ttl": 3}),
        ("/secrets/No%20Name", {"value": "hunter2"}),
        ("/secrets/api_key?owner=nobody", {"value": "hunter2"}),
    ],
    ids=["too long", "no text", "misspelled", "with more", "malformed name", "unknown owner"],
)
def test_no_refusal_repeats_the_value(peopled: Peopled, path: str, body: dict[str, object]) -> None:
    refused = peopled.daemon.ask("PUT", path, body)

    assert refused.status in (400, 404), refused.body
    assert "hunter2" not in str(refused.body)


def test_whether_the_operator_at_the_machine_has_secrets_is_for_nobody_else_to_see(
    peopled: Peopled, cookies: dict[str, str]
) -> None:
    owner = peopled.daemon.ask("GET", "/me").body["principal"]
    assert peopled.daemon.ask("PUT", f"/secrets/own?owner={owner}", {"value": "hunter2"}).body["owner"] == owner
    for method, path in (("GET", "/secrets?"), ("GET", "/secrets/own?"), ("DELETE", "/secrets/own?")):
        refused = from_browser(peopled, cookies["olga"], method, f"{path}owner={owner}")
        assert (refused.status, refused.body["code"]) == (404, "person.not_found")
    assert peopled.daemon.ask("DELETE", f"/secrets/own?owner={owner}").body["removed"] is True
