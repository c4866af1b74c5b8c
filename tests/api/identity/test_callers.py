"""Who is calling: a key proves its principal, and everything else comes from that."""

from __future__ import annotations

import http.client
import json
import re

import pytest

from fixtures.commands import PATIENCE
from fixtures.daemons import eventually
from fixtures.people import Peopled, key_of
from paddock.store.database import open_direct


def without_ids(body: dict[str, object], *names: str) -> str:
    text = str({key: value for key, value in body.items() if key != "error_id"})
    for name in names:
        text = text.replace(name, "…")
    return text


def test_a_key_acts_as_its_own_principal_in_its_own_tenant(peopled: Peopled) -> None:
    said = peopled.ask("ann", "POST", "/plugins/parrot/call/say", {"text": "hello"})

    assert (said.status, said.body["result"]["said"]) == (200, "hello")
    assert said.body["result"]["operator"] is None, "nobody at this machine made it"
    entries = json.dumps(peopled.daemon.ask("GET", "/ledger?type=call.*").body)
    assert '"key:' in entries and '"local:' not in entries


@pytest.mark.parametrize(
    "header",
    ["Bearer pdk_aaaaaaaa_" + "a" * 52, "Bearer nonsense", "Bearer", "Basic YW5uOmE=", "pdk_aaaaaaaa"],
)
def test_what_proves_nobody_is_refused_with_a_challenge(peopled: Peopled, header: str) -> None:
    said = peopled.daemon.ask("GET", "/plugins", authorization=header)

    assert (said.status, said.body["code"]) == (401, "auth.refused")
    assert said.headers["www-authenticate"] == 'Bearer realm="paddock", error="invalid_token"'


def test_a_key_stops_at_once_when_it_is_revoked_or_its_owner_disabled(peopled: Peopled) -> None:
    paddock = peopled.daemon.paddock
    paddock.quickly("user", "add", "cyd")
    first, second = (paddock.quickly("apikey", "add", "cyd", "--json").json for _ in range(2))

    def status(key: dict[str, str]) -> int:
        return peopled.daemon.ask("GET", "/calls", authorization=f"Bearer {key['token']}").status

    assert (status(first), status(second)) == (200, 200)
    paddock.quickly("apikey", "remove", first["id"], "--yes")
    assert (status(first), status(second)) == (401, 200)
    paddock.quickly("user", "disable", "cyd")
    assert (status(first), status(second)) == (401, 401)


def test_what_another_host_on_the_same_store_takes_away_is_gone_within_seconds(peopled: Peopled) -> None:
    """Written past the daemon, as another host does: nobody tells this one."""
    paddock = peopled.daemon.paddock
    paddock.quickly("user", "add", "gus")
    expired, disabled = (paddock.quickly("apikey", "add", "gus", "--expires", "1h", "--json").json for _ in range(2))

    def status(key: dict[str, str]) -> int:
        return peopled.daemon.ask_tcp("GET", "/me", authorization=f"Bearer {key['token']}").status

    assert (status(expired), status(disabled)) == (200, 200)
    with open_direct(paddock.home / "data" / "paddock.db") as store:
        long_ago = ("2020-01-01T00:00:00+00:00", expired["id"])
        store.write(lambda tx: tx.execute("UPDATE api_keys SET expires_at = ? WHERE id = ?", long_ago))
        eventually(lambda: status(expired) == 401, "its time is over")
        assert status(disabled) == 200
        store.write(lambda tx: tx.execute("UPDATE people SET disabled = 1 WHERE name = ?", ("gus",)))
        eventually(lambda: status(disabled) == 401, "its owner is disabled")


def test_a_role_that_is_taken_away_is_gone_at_once(peopled: Peopled) -> None:
    paddock = peopled.daemon.paddock
    paddock.quickly("user", "add", "dee", "--role", "operator", "--role", "member")
    key = key_of(paddock, "dee", "--role", "operator", "--role", "member")

    def status() -> int:
        return peopled.daemon.ask("GET", "/plugins/parrot/logs", authorization=f"Bearer {key}").status

    assert status() == 200
    paddock.quickly("user", "role", "remove", "dee", "operator")
    assert status() == 403


def test_only_the_operator_on_the_local_socket_acts_as_somebody_else(peopled: Peopled) -> None:
    call = ("POST", "/plugins/parrot/call/say", {"text": "x"})

    assert peopled.daemon.ask(*call, paddock_as="user:bob").status == 200
    for who in ("ann", "olga"):
        refused = [peopled.ask(who, *call, paddock_as=name) for name in ("user:bob", "user:nobody", "local:root")]
        assert [(one.status, one.body["code"]) for one in refused] == [(403, "principal.not_yours")] * 3


def test_another_tenant_in_the_address_is_as_unknown_as_none(peopled: Peopled) -> None:
    paths = ("/calls", "/plugins", "/approvals", "/plugins/parrot", "/calls/call_x", "/artifacts/" + "a" * 64)
    for who, own, other in (("ann", "default", "acme"), ("omar", "acme", "default")):
        for path in paths:
            theirs, nobodys = (peopled.ask(who, "GET", f"{path}?tenant={name}") for name in (other, "nobodys"))
            assert theirs.status == nobodys.status == 404, path
            assert without_ids(theirs.body, other) == without_ids(nobodys.body, "nobodys"), path
        assert peopled.ask(who, "GET", f"/calls?tenant={own}").status == 200


def test_nothing_that_can_be_read_of_a_tenant_is_shown_to_operators_of_others(peopled: Peopled) -> None:
    asked = 0
    for path, verbs in peopled.daemon.ask("GET", "/openapi.json").body["paths"].items():
        query = [one for one in verbs.get("get", {}).get("parameters", ()) if one["in"] == "query"]
        if "tenant" not in {one["name"] for one in query}:
            continue
        more = "".join(f"&{one['name']}=x" for one in query if one.get("required"))
        address = re.sub(r"\{\w+\}", "x", path.removeprefix("/api/v1"))
        for who, other in (("olga", "acme"), ("omar", "default")):
            theirs, nobodys = (peopled.ask(who, "GET", f"{address}?tenant={name}{more}") for name in (other, "nobodys"))
            assert theirs.status == nobodys.status, path
            assert theirs.body["code"].lower() in ("tenant.not_found", "tenant_not_found", "auth.not_for_you"), path
            assert without_ids(theirs.body, other) == without_ids(nobodys.body, "nobodys"), path
            asked += 1
    assert asked > 60


def test_members_see_their_own_calls_and_operators_all_of_their_tenant(peopled: Peopled) -> None:
    made = peopled.ask("ann", "POST", "/plugins/parrot/call/say", {"text": "mine"}).body["call_id"]

    assert peopled.ask("ann", "GET", f"/calls/{made}").status == 200
    assert peopled.ask("olga", "GET", f"/calls/{made}").status == 200
    assert made in str(peopled.ask("ann", "GET", "/calls").body)
    unknown = peopled.ask("bob", "GET", "/calls/call_00000000000000000000000000")
    for who in ("bob", "zoe", "omar"):
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/questions/q")):
            body = {"action": "decline"} if "questions" in path else None
            assert peopled.ask(who, method, f"/calls/{made}{path}", body).status == 404
        assert made not in str(peopled.ask(who, "GET", "/calls").body)
    theirs = peopled.ask("bob", "GET", f"/calls/{made}")
    assert without_ids(theirs.body, made) == without_ids(unknown.body, "call_00000000000000000000000000")


def test_where_on_this_machine_a_plugin_came_from_is_told_to_who_operates_the_host(peopled: Peopled) -> None:
    told = {who: peopled.ask(who, "GET", "/plugins/parrot").body["source"] for who in ("olga", "omar")}

    assert told["olga"].startswith("directory /") and told["omar"] == "directory"


def test_a_member_is_told_of_the_plugins_that_their_tenant_has(peopled: Peopled) -> None:
    (listed,) = peopled.ask("ann", "GET", "/plugins").body["plugins"]
    assert (listed["name"], listed["state"]) == ("parrot", "enabled")
    assert "runtime" not in listed
    shown = peopled.ask("ann", "GET", "/plugins/parrot").body
    assert "say" in [one["name"] for one in shown["callables"]]
    assert peopled.ask("zoe", "GET", "/plugins").body == {"plugins": []}
    for path in ("", "/tools", "/resources", "/prompts", "/actions"):
        theirs, nobodys = (peopled.ask("zoe", "GET", f"/plugins/{name}{path}") for name in ("parrot", "nobodys"))
        assert theirs.status == nobodys.status == 404, path
        assert without_ids(theirs.body, "parrot") == without_ids(nobodys.body, "nobodys"), path


@pytest.mark.parametrize(
    ("method", "path", "lets"),
    [
        ("GET", "/plugins/parrot/logs", {"olga", "omar"}),
        ("GET", "/plugins/parrot/definitions", {"olga", "omar"}),
        ("POST", "/plugins/nobody/enable", {"olga", "omar"}),
        ("POST", "/plugins/nobody/disable", {"olga", "omar"}),
        ("GET", "/status", {"olga"}),
        ("GET", "/people", {"olga", "omar"}),
        ("GET", "/people/nobody", {"olga", "omar"}),
        ("GET", "/people/nobody/identities", {"olga", "omar"}),
        ("POST", "/people/ann/identities", set[str]()),
        ("DELETE", "/people/ann/identities", set[str]()),
        ("GET", "/sessions", {"olga", "omar"}),
        ("POST", "/login-links", set[str]()),
        ("POST", "/consents", set[str]()),
        ("GET", "/consents/target?name=parrot.say", set[str]()),
        ("GET", "/groups", {"olga", "omar"}),
        ("GET", "/groups/nobody", {"olga", "omar"}),
        ("GET", "/tenants", set[str]()),
        ("GET", "/tenants/acme", set[str]()),
        ("POST", "/tenants", set[str]()),
        ("DELETE", "/tenants/nobody", set[str]()),
        ("GET", "/metrics", {"olga"}),
        ("POST", "/reconcile", set[str]()),
    ],
)
def test_what_is_not_for_everybody(peopled: Peopled, method: str, path: str, lets: set[str]) -> None:
    said = {who: peopled.ask(who, method, path) for who in peopled.keys}

    assert {who for who, one in said.items() if one.status != 403} == lets
    assert {one.body["code"] for one in said.values() if one.status == 403} == {"auth.not_for_you"}
    assert all(one.body["hint"] for one in said.values() if one.status == 403), "and what would be right"
    assert peopled.daemon.ask(method, path).status != 403


def test_when_a_key_was_used_is_noted(peopled: Peopled) -> None:
    peopled.ask("ann", "GET", "/calls")
    peopled.ask("ann", "GET", "/calls")

    def noted() -> bool:
        listed = peopled.daemon.paddock.quickly("apikey", "list", "--user", "ann", "--json").json["keys"]
        return listed[0]["last_used_at"] is not None

    eventually(noted, "it is written beside the calls, a moment later")


def test_who_made_a_call_is_told_how_it_ended_though_their_key_is_gone_by_then(peopled: Peopled) -> None:
    paddock = peopled.daemon.paddock
    given = paddock.quickly("apikey", "add", "ann", "--json").json
    connection = http.client.HTTPConnection(*peopled.daemon.tcp, timeout=PATIENCE)
    headers = {"authorization": f"Bearer {given['token']}", "accept": "text/event-stream"}
    try:
        connection.request("POST", "/api/v1/plugins/parrot/call/burn", json.dumps({"seconds": 2.5}), headers)
        told = connection.getresponse()
        paddock.quickly("apikey", "remove", given["id"], "--yes")
        said = told.read()
    finally:
        connection.close()

    assert b"event: end" in said and b'"succeeded"' in said, said
