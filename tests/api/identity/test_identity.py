"""Tenants, people, groups, API keys and sign-ins over HTTP: who may see and change them, and mistakes in requests."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.daemons import Answer
from fixtures.people import Peopled, from_browser, signed_in


@pytest.fixture(scope="module")
def cookies(peopled: Peopled) -> dict[str, str]:
    return {
        "ann": signed_in(peopled, "ann"),
        "olga": signed_in(peopled, "olga"),
        "omar": signed_in(peopled, "omar", "--tenant", "acme"),
    }


def test_the_operator_at_the_machine_adds_shows_and_removes_tenants(peopled: Peopled) -> None:
    ask = peopled.daemon.ask

    made = ask("POST", "/tenants", {"name": "labs", "title": "Labs"})

    assert (made.status, made.body["title"]) == (201, "Labs")
    assert ask("GET", "/tenants/labs").body == made.body
    assert made.body in ask("GET", "/tenants").body["tenants"]
    again = ask("POST", "/tenants", {"name": "labs"})
    assert (again.status, again.body["code"]) == (409, "tenant.exists")
    assert ask("DELETE", "/tenants/labs").status == 204
    assert ask("GET", "/tenants/labs").body["code"] == "tenant.not_found"
    kept = ask("DELETE", "/tenants/acme")
    assert (kept.status, kept.body["code"]) == (409, "tenant.in_use")


def test_a_name_that_nothing_can_have_is_reported_with_its_path(peopled: Peopled) -> None:
    for path in ("/tenants", "/groups"):
        refused = peopled.daemon.ask("POST", path, {"name": "Not A Name"})
        assert (refused.status, refused.body["code"]) == (400, "invalid_params")
        assert [(one["path"], one["code"]) for one in refused.body["errors"]] == [("name", "principal.bad_name")]


def test_all_mistakes_of_a_new_person_are_reported_at_once(peopled: Peopled) -> None:
    refused = peopled.daemon.ask("POST", "/people", {"name": "Ann Lee", "roles": ["No Role"], "scopes": ["x", "a b"]})

    assert refused.status == 400
    assert [one["path"] for one in refused.body["errors"]] == ["roles[0]", "scopes[1]", "name"]
    for rights in ("roles", "scopes"):
        refused = peopled.daemon.ask("POST", f"/people/ann/{rights}", {"add": ["ok", "no, not this", "nor this"]})
        assert [one["path"] for one in refused.body["errors"]] == ["add[1]", "add[2]"]


def test_what_a_key_did_is_shown_with_the_label_of_the_key(peopled: Peopled, cookies: dict[str, str]) -> None:
    key = peopled.daemon.ask("POST", "/api-keys", {"owner": "ann", "label": "night mailer"}).body
    called = peopled.daemon.ask_tcp(
        "POST", "/plugins/parrot/call/say", {"text": "x"}, authorization=f"Bearer {key['token']}"
    )
    assert called.status == 200

    shown = from_browser(peopled, cookies["olga"], "GET", f"//ledger?principal=key:{key['id']}").body
    assert "ann’s key “night mailer”" in shown
    assert (
        f"key:{key['id']} “ann’s key ‘night mailer’”"
        in peopled.daemon.paddock.quickly("ledger", "tail", "--principal", f"key:{key['id']}").out
    )


def test_all_mistakes_of_a_new_key_are_reported_at_once(peopled: Peopled) -> None:
    body = {"owner": "ann", "roles": ["member", "No Role"], "scopes": ["a b", "c,d"]}

    refused = peopled.daemon.ask("POST", "/api-keys", body)

    assert refused.status == 400
    assert [one["path"] for one in refused.body["errors"]] == ["roles[1]", "scopes[0]", "scopes[1]"]
    malformed = peopled.daemon.ask("POST", "/api-keys", {"owner": 3, "expires_at": "tomorrow"})
    assert {one["path"] for one in malformed.body["errors"]} == {"owner", "expires_at"}


def test_operators_of_a_tenant_manage_its_groups_in_person(peopled: Peopled, cookies: dict[str, str]) -> None:
    made = from_browser(peopled, cookies["omar"], "POST", "/groups", {"name": "night-shift"})
    assert (made.status, made.body["tenant"], made.body["members"]) == (201, "acme", [])

    joined = from_browser(peopled, cookies["omar"], "PUT", "/groups/night-shift/members/zoe")
    assert joined.body["members"] == ["zoe"]
    assert peopled.ask("omar", "GET", "/groups/night-shift").body == joined.body
    assert peopled.ask("olga", "GET", "/groups").body["groups"] == []
    stranger = from_browser(peopled, cookies["omar"], "PUT", "/groups/night-shift/members/ann")
    assert (stranger.status, stranger.body["code"]) == (404, "person.not_found")
    left = from_browser(peopled, cookies["omar"], "DELETE", "/groups/night-shift/members/zoe")
    assert left.body["members"] == []

    removed = from_browser(peopled, cookies["omar"], "DELETE", "/groups/night-shift")
    assert removed.body == {"name": "night-shift", "tenant": "acme", "removed": True}
    assert peopled.ask("omar", "GET", "/groups").body["groups"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/people", {"name": "eve", "roles": ["operator"]}),
        ("DELETE", "/people/ann", None),
        ("POST", "/people/ann/roles", {"add": ["operator"]}),
        ("POST", "/people/ann/scopes", {"add": ["email:send"]}),
        ("POST", "/people/ann/enable", {}),
        ("POST", "/people/ann/disable", {}),
        ("POST", "/sessions/end", {"person": "ann"}),
        ("POST", "/sessions/ses_1/end", {}),
        ("POST", "/groups", {"name": "more"}),
        ("DELETE", "/groups/more", None),
        ("PUT", "/groups/more/members/ann", None),
        ("DELETE", "/groups/more/members/ann", None),
        ("POST", "/api-keys", {"owner": "olga", "roles": ["operator"]}),
    ],
)
def test_a_program_with_the_key_of_an_operator_changes_nobody_and_no_group(
    peopled: Peopled, method: str, path: str, body: Any
) -> None:
    refused = peopled.ask("olga", method, path, body)

    assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")


def test_the_token_of_a_key_is_in_the_response_that_creates_it_and_in_no_other(
    peopled: Peopled, cookies: dict[str, str]
) -> None:
    body = {"owner": "bob", "label": "mailer", "expires_at": "2999-01-31T12:00:00+01:00"}
    made = from_browser(peopled, cookies["olga"], "POST", "/api-keys", body)
    assert (made.status, made.body["owner"], made.body["state"]) == (201, "user:bob", "live")
    assert made.body["expires_at"] == "2999-01-31T11:00:00+00:00"
    token, key = made.body["token"], made.body["id"]
    assert peopled.daemon.ask_tcp("GET", "/me", authorization=f"Bearer {token}").body["person"] == "user:bob"

    shown = peopled.ask("olga", "GET", f"/api-keys/{key}")
    listed = peopled.ask("olga", "GET", "/api-keys?owner=bob")
    revoked = peopled.ask("olga", "POST", f"/api-keys/{key}/revoke")

    assert key in {one["id"] for one in listed.body["keys"]}
    assert {one["owner"] for one in listed.body["keys"]} == {"user:bob"}
    assert revoked.body["state"] == "revoked"
    assert token not in str((shown.body, listed.body, revoked.body))
    assert peopled.daemon.ask_tcp("GET", "/me", authorization=f"Bearer {token}").status == 401


def test_people_see_and_revoke_their_own_keys_and_no_others(peopled: Peopled, cookies: dict[str, str]) -> None:
    own = peopled.daemon.paddock.quickly("apikey", "add", "ann", "--json").json["id"]
    other = peopled.daemon.paddock.quickly("apikey", "add", "bob", "--json").json["id"]

    listed = from_browser(peopled, cookies["ann"], "GET", "/api-keys").body["keys"]

    assert own in {one["id"] for one in listed}
    assert {one["owner"] for one in listed} == {"user:ann"}
    assert from_browser(peopled, cookies["ann"], "GET", "/api-keys?owner=bob").body["keys"] == []
    for method, path in (("GET", ""), ("POST", "/revoke")):
        theirs = from_browser(peopled, cookies["ann"], method, f"/api-keys/{other}{path}")
        unknown = from_browser(peopled, cookies["ann"], method, f"/api-keys/aaaaaaaa{path}")
        assert theirs.status == unknown.status == 404
        assert theirs.body["detail"].replace(other, "…") == unknown.body["detail"].replace("aaaaaaaa", "…")
    assert from_browser(peopled, cookies["ann"], "POST", f"/api-keys/{own}/revoke").body["state"] == "revoked"
    assert from_browser(peopled, cookies["ann"], "POST", "/api-keys", {"owner": "ann"}).status == 403
    assert peopled.ask("ann", "GET", "/api-keys").body["keys"] == [], "a key owns none, and sees no others"


def test_operators_of_a_tenant_manage_its_people_in_person(peopled: Peopled, cookies: dict[str, str]) -> None:
    def omar(method: str, path: str, body: Any = None) -> Answer:
        return from_browser(peopled, cookies["omar"], method, path, body)

    made = omar("POST", "/people", {"name": "kim", "display_name": "Kim Lee", "scopes": ["email:send"]})
    assert (made.status, made.body["tenant"], made.body["roles"]) == (201, "acme", ["member"])
    assert omar("POST", "/people", {"name": "kim"}).body["code"] == "person.exists"

    changed = omar("POST", "/people/kim/roles", {"add": ["approver"], "remove": ["member"]})
    assert (changed.body["roles"], changed.body["second_approver"]) == (["approver"], True)
    assert omar("POST", "/people/kim/scopes", {"remove": ["email:send"]}).body["scopes"] == []
    assert omar("POST", "/people/kim/disable", {}).body["state"] == "disabled"
    assert omar("POST", "/people/kim/enable", {}).body["state"] == "enabled"

    shown = peopled.ask("omar", "GET", "/people/kim").body
    assert (shown["display_name"], shown["keys"], shown["consents"]) == ("Kim Lee", [], [])
    assert "kim" in {one["name"] for one in peopled.ask("omar", "GET", "/people").body["people"]}
    assert "kim" not in {one["name"] for one in peopled.ask("olga", "GET", "/people").body["people"]}
    assert omar("DELETE", "/people/kim").body == {"name": "kim", "tenant": "acme", "removed": True}
    assert peopled.ask("omar", "GET", "/people/kim").status == 404


def test_operators_do_not_lock_themselves_out(peopled: Peopled, cookies: dict[str, str]) -> None:
    for method, path, body in (
        ("DELETE", "/people/olga", None),
        ("POST", "/people/olga/disable", {}),
        ("POST", "/people/olga/roles", {"remove": ["operator"]}),
    ):
        refused = from_browser(peopled, cookies["olga"], method, path, body)
        assert (refused.status, refused.body["code"]) == (409, "person.yourself")


def test_the_operator_at_the_machine_links_people_to_identities(peopled: Peopled) -> None:
    ask, issuer = peopled.daemon.ask, "https://login.example.org"

    unset = ask("POST", "/people/bob/identities", {"subject": "s1"})
    assert (unset.status, unset.body["code"]) == (400, "oidc.no_issuer")
    linked = ask("POST", "/people/bob/identities", {"subject": "s1", "issuer": issuer}).body
    assert linked == {"id": "user:bob", "identities": [{"issuer": issuer, "subject": "s1"}]}
    assert peopled.ask("olga", "GET", "/people/bob/identities").body == linked
    taken = ask("POST", "/people/ann/identities", {"subject": "s1", "issuer": issuer})
    assert (taken.status, taken.body["code"]) == (409, "identity.taken")
    assert ask("DELETE", f"/people/bob/identities?issuer={issuer}").body["identities"] == []


def test_operators_end_the_sessions_of_their_tenant_and_of_no_other(peopled: Peopled, cookies: dict[str, str]) -> None:
    first, second = signed_in(peopled, "bob"), signed_in(peopled, "bob")
    sessions = peopled.ask("olga", "GET", "/sessions?person=bob").body["sessions"]
    assert [one["subject"] for one in sessions] == ["user:bob"] * 2
    assert first.partition("=")[2] not in str(sessions)

    theirs = from_browser(peopled, cookies["omar"], "POST", f"/sessions/{sessions[0]['id']}/end", {})
    assert (theirs.status, theirs.body["code"]) == (404, "session.not_found")
    ended = from_browser(peopled, cookies["olga"], "POST", f"/sessions/{sessions[0]['id']}/end", {})
    assert ended.body == {"tenant": "default", "ended": [sessions[0]["id"]]}
    assert [from_browser(peopled, one, "GET", "/me").status for one in (first, second)].count(401) == 1
    rest = from_browser(peopled, cookies["olga"], "POST", "/sessions/end", {"person": "bob"})
    assert rest.body["ended"] == [sessions[1]["id"]]
    assert [from_browser(peopled, one, "GET", "/me").status for one in (first, second)] == [401, 401]


def test_the_sessions_of_the_operator_at_the_machine_are_ended_there_alone(
    peopled: Peopled, cookies: dict[str, str]
) -> None:
    made = peopled.daemon.ask("POST", "/login-links", {})
    assert made.status == 201
    name = made.body["person"]
    assert name.startswith("local:")
    token = made.body["url"].rpartition("/")[2]
    cookie = peopled.daemon.ask_tcp("POST", f"//login/{token}").headers["set-cookie"].partition(";")[0]
    assert from_browser(peopled, cookie, "GET", "/me").body["principal"] == name

    refused = from_browser(peopled, cookies["olga"], "POST", "/sessions/end", {"person": name})
    assert (refused.status, refused.body["code"]) == (404, "person.not_found")
    assert len(peopled.daemon.ask("POST", "/sessions/end", {"person": name}).body["ended"]) == 1
    assert from_browser(peopled, cookie, "GET", "/me").status == 401


def test_a_login_link_is_for_a_person_of_the_tenant(peopled: Peopled) -> None:
    made = peopled.daemon.ask("POST", "/login-links?tenant=acme", {"person": "zoe"}).body
    assert (made["person"], made["tenant"]) == ("user:zoe", "acme")
    unknown = peopled.daemon.ask("POST", "/login-links", {"person": "zoe"})
    assert (unknown.status, unknown.body["code"]) == (404, "person.not_found")


def test_people_see_and_revoke_their_own_consents_and_no_others(peopled: Peopled, cookies: dict[str, str]) -> None:
    ask = peopled.daemon.ask
    given = ask("POST", "/consents", {"name": "parrot.say", "person": "user:ann"}).body
    assert (given["person"], given["plugin"], given["callable"]) == ("user:ann", "parrot", "say")
    ask("POST", "/consents", {"name": "parrot.say", "person": "user:bob"})
    target = ask("GET", "/consents/target?name=parrot.say&person=user:ann").body
    assert (target["person"], target["plugin"], target["tool"]["name"]) == ("user:ann", "parrot", "say")

    assert from_browser(peopled, cookies["ann"], "GET", "/consents").body["consents"] == [given]
    theirs, unknown = (
        from_browser(peopled, cookies["ann"], "GET", f"/consents?person=user:{name}") for name in ("bob", "nobody")
    )
    assert theirs.status == unknown.status == 404
    refused = from_browser(peopled, cookies["ann"], "POST", "/consents/revoke", {"name": "x.y", "person": "user:bob"})
    assert (refused.status, refused.body["code"]) == (404, "person.not_found")
    everybody = {one["person"] for one in peopled.ask("olga", "GET", "/consents").body["consents"]}
    assert everybody == {"user:ann", "user:bob"}
    assert peopled.ask("omar", "GET", "/consents").body["consents"] == []

    program = peopled.ask("ann", "POST", "/consents/revoke", {"name": "parrot.say"})
    assert (program.status, program.body["code"]) == (403, "auth.person_needed")
    revoked = from_browser(peopled, cookies["ann"], "POST", "/consents/revoke", {"name": "parrot.say"}).body
    assert revoked["revoked_at"] is not None
    assert from_browser(peopled, cookies["ann"], "GET", "/consents").body["consents"] == []
    assert from_browser(peopled, cookies["ann"], "GET", "/consents?revoked=1").body["consents"] == [revoked]


def test_operators_change_nobody_of_another_tenant_not_even_a_namesake(
    peopled: Peopled, cookies: dict[str, str]
) -> None:
    for who in ("olga", "omar"):
        from_browser(peopled, cookies[who], "POST", "/people", {"name": "sam", "scopes": ["email:send"]})
    before = peopled.ask("olga", "GET", "/people/sam").body
    assert (before["tenant"], before["state"], before["roles"]) == ("default", "enabled", ["member"])

    for method, path, body in (
        ("POST", "/people/sam/roles", {"remove": ["member"]}),
        ("POST", "/people/sam/scopes", {"remove": ["email:send"]}),
        ("POST", "/people/sam/disable", {}),
        ("DELETE", "/people/sam", None),
    ):
        foreign = from_browser(peopled, cookies["omar"], method, f"{path}?tenant=default", body)
        assert (foreign.status, foreign.body["code"]) == (404, "tenant.not_found")
        assert from_browser(peopled, cookies["omar"], method, path, body).body["tenant"] == "acme"
        assert peopled.ask("olga", "GET", "/people/sam").body == before
    from_browser(peopled, cookies["olga"], "DELETE", "/people/sam")
