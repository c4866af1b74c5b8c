"""Whoever has an id of another tenant learns nothing with it: not what it is, and not that it is there."""

from __future__ import annotations

import http.client
import itertools
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import pytest

from fixtures.butler import butler
from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon
from fixtures.mail import mail
from fixtures.maker import maker
from fixtures.people import key_of

ROUTES = {
    "call": [
        ("GET", "/calls/{}"),
        ("GET", "/calls/{}/events"),
        ("GET", "/calls/{}/explanation"),
        ("POST", "/calls/{}/cancel"),
        ("POST", "/calls/{}/questions/q_1"),
        ("GET", "/calls/unresolved/{}"),
        ("POST", "/calls/unresolved/{}/resolve"),
        ("GET", "/ledger?call={}"),
    ],
    "approval": [
        ("GET", "/approvals/{}"),
        ("GET", "/approvals?before={}"),
        ("GET", "/calls/{}/explanation"),
        ("POST", "/approvals/{}/approve"),
        ("POST", "/approvals/{}/deny"),
        ("POST", "/approvals/standing/{}/revoke"),
    ],
    "entry": [("GET", "/ledger/{}"), ("GET", "/calls/{}/explanation")],
    "artifact": [("GET", "/artifacts/{}")],
    "session": [("POST", "/me/sessions/{}/end"), ("POST", "/sessions/{}/end")],
    "person": [
        ("GET", "/people/{}"),
        ("DELETE", "/people/{}"),
        ("POST", "/people/{}/roles"),
        ("POST", "/people/{}/scopes"),
        ("POST", "/people/{}/enable"),
        ("POST", "/people/{}/disable"),
        ("GET", "/people/{}/identities"),
        ("GET", "/sessions?person={}"),
        ("GET", "/api-keys?owner={}"),
        ("GET", "/consents?person=user%3A{}"),
    ],
    "key": [
        ("GET", "/ledger?principal=key%3A{}"),
        ("GET", "/calls/{}/explanation"),
        ("GET", "/api-keys/{}"),
        ("POST", "/api-keys/{}/revoke"),
    ],
    "group": [
        ("GET", "/groups/{}"),
        ("DELETE", "/groups/{}"),
        ("PUT", "/groups/{}/members/omar"),
        ("DELETE", "/groups/{}/members/omar"),
    ],
    "webhook": [
        ("GET", "/webhooks/{}"),
        ("GET", "/webhooks/{}/dead"),
        ("POST", "/webhooks/{}/disable"),
        ("DELETE", "/webhooks/{}"),
    ],
    "secret": [("GET", "/secrets/{}"), ("DELETE", "/secrets/{}")],
    "plugin": [
        ("GET", "/plugins/{}"),
        ("GET", "/plugins/{}/tools"),
        ("GET", "/plugins/{}/resources"),
        ("GET", "/plugins/{}/prompts"),
        ("GET", "/plugins/{}/actions"),
        ("GET", "/plugins/{}/resources/read?uri=memo%3A%2F%2Fone"),
        ("POST", "/plugins/{}/prompts/greet"),
        ("POST", "/plugins/{}/execute"),
        ("POST", "/plugins/{}/call/look"),
        ("POST", "/plugins/{}/actions/send"),
    ],
}
BODIES = {"questions": {"action": "decline"}, "resolve": {"happened": True}}
OF_OPERATORS = {"plugin"}
"""What is installed is the host's: whoever operates a tenant knows of it, to enable it. Its members do not."""


@dataclass(frozen=True)
class Two:
    """The ids of one tenant, and keys of another."""

    where: tuple[str, int]
    ids: dict[str, list[str]]
    own: str
    member: str
    operator: str


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Generator[Two, None, None]:
    folder = tmp_path_factory.mktemp("two")
    paddock = Paddock(folder / "home")
    for package in (mail(folder / "mail"), maker(folder / "maker"), butler(folder / "butler")):
        paddock.quickly("plugin", "install", package, "--yes")
        paddock.quickly("plugin", "enable", package.name)
    paddock.quickly("user", "add", "ann", "--role", "operator")
    paddock.quickly("user", "add", "ann-of-default")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "zoe", "--tenant", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    paddock.quickly("group", "add", "night-shift")
    made_key = paddock.quickly("apikey", "add", "ann", "--role", "operator", "--json").json
    bearer = {"authorization": f"Bearer {made_key['token']}"}
    with daemon(paddock) as started:
        ids: dict[str, list[str]] = {
            "plugin": ["mail", "maker", "butler"],
            "key": [made_key["id"]],
            "group": ["night-shift"],
            "person": ["ann-of-default"],
        }
        looked = [started.ask_tcp("POST", "/plugins/mail/call/look", {}, **bearer).body["call_id"] for _ in range(20)]
        sent = [started.ask_tcp("POST", "/plugins/mail/call/send", {"to": "b"}, **bearer).body for _ in range(20)]
        ids["call"] = looked + [one["call_id"] for one in sent]
        ids["approval"] = [one["approval"]["approval"] for one in sent]
        made = started.ask_tcp("POST", "/plugins/maker/call/make", {}, **bearer).body["result"]["uri"]
        ids["artifact"] = [made.rpartition("/")[2]]
        token = paddock.quickly("login", "--user", "ann", "--json").json["url"].rpartition("/")[2]
        assert started.ask_tcp("POST", f"//login/{token}").status == 303
        ids["session"] = [one["id"] for one in paddock.quickly("user", "session", "list", "--json").json["sessions"]]
        hook = started.ask_tcp("POST", "/webhooks", {"url": "https://hooks.example.org/x"}, **bearer)
        assert hook.status in (200, 201), hook.body
        ids["webhook"] = [hook.body["id"]]
        assert started.ask("PUT", "/secrets/key-of-default", {"value": "hunter2"}).status == 200
        ids["secret"] = ["key-of-default"]
        entries = started.ask_tcp("GET", "/ledger?limit=100", **bearer).body["entries"]
        ids["entry"] = [one["id"] for one in entries]
        assert all(ids.values())
        yield Two(
            started.tcp,
            ids,
            made_key["token"],
            key_of(paddock, "zoe", "--tenant", "acme"),
            key_of(paddock, "omar", "--tenant", "acme", "--role", "operator"),
        )


def nobodys(name: str) -> str:
    """A name of the same form that nobody has."""
    other = name[:-6] + name[-6:].translate(str.maketrans("0123456789abcdef", "1032547698badcfe"))
    return other if other != name else f"{name}x"


def cases(two: Two, many: int) -> Iterator[tuple[str, str, str, str]]:
    """So many (key, verb, route, id), those of all kinds in turn."""
    by_kind = [
        itertools.cycle(list(itertools.product((two.member, two.operator), ROUTES[kind], ids)))
        for kind, ids in two.ids.items()
    ]
    kinds = list(two.ids)
    for number in range(many):
        key, (verb, route), one = next(by_kind[number % len(kinds)])
        if kinds[number % len(kinds)] in OF_OPERATORS:
            key = two.member
        yield key, verb, route, one


def swapped(two: Two, many: int) -> int:
    """Ask for each id, and for one that nobody has; gives how many were compared."""
    connection = http.client.HTTPConnection(*two.where, timeout=PATIENCE)

    def said(key: str, verb: str, route: str, one: str) -> tuple[int, str]:
        body = next((value for part, value in BODIES.items() if part in route), {}) if verb == "POST" else None
        sent = None if body is None else json.dumps(body)
        connection.request(verb, "/api/v1" + route.format(one), sent, {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        text = answer.read().decode()
        text = re.sub(r'"error_id":"[^"]*"', "", text).replace(one, "…")
        return answer.status, text

    compared = 0
    for key, verb, route, one in cases(two, many):
        theirs, unknown = said(key, verb, route, one), said(key, verb, route, nobodys(one))
        assert theirs == unknown, (verb, route, one)
        # Lists of what they may see are theirs, and empty of it; everything else is not found, or not for them.
        assert theirs[0] in ((200, 403, 404) if "?" in route else (403, 404)), (verb, route, theirs)
        compared += 1
    connection.close()
    return compared


@pytest.mark.req("B-22", "calls")
@pytest.mark.req("B-22", "approvals")
@pytest.mark.req("B-22", "ledger")
@pytest.mark.req("B-22", "artifacts")
def test_whose_they_are_finds_each_of_them(two: Two) -> None:
    for kind, route in (
        *(("call", "/calls/{}"), ("approval", "/approvals/{}"), ("entry", "/ledger/{}")),
        *(("artifact", "/artifacts/{}"), ("webhook", "/webhooks/{}"), ("plugin", "/plugins/{}")),
        *(("key", "/api-keys/{}"), ("group", "/groups/{}"), ("person", "/people/{}"), ("secret", "/secrets/{}")),
    ):
        for one in two.ids[kind]:
            connection = http.client.HTTPConnection(*two.where, timeout=PATIENCE)
            connection.request("GET", "/api/v1" + route.format(one), None, {"authorization": f"Bearer {two.own}"})
            assert connection.getresponse().status == 200, (kind, one)
            connection.close()


@pytest.mark.req("B-22", "calls")
@pytest.mark.req("B-22", "approvals")
@pytest.mark.req("B-22", "ledger")
@pytest.mark.req("B-22", "artifacts")
def test_ids_of_another_tenant_are_as_unknown_as_those_that_nobody_has(two: Two) -> None:
    assert swapped(two, 400) == 400


@pytest.mark.req("B-22", "calls")
@pytest.mark.req("B-22", "approvals")
@pytest.mark.req("B-22", "ledger")
def test_no_list_of_another_tenant_holds_anything_of_it(two: Two) -> None:
    def said(key: str, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*two.where, timeout=PATIENCE)
        connection.request("GET", f"/api/v1{path}", None, {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    lists = {"/calls": "call", "/approvals?all=1": "approval", "/ledger?limit=1000": "entry", "/webhooks": "webhook"}
    lists |= {"/secrets": "secret", "/api-keys": "key", "/groups": "group", "/people": "person", "/sessions": "session"}
    for path, kind in lists.items():
        status, own = said(two.own, path)
        assert status == 200 and any(one in own for one in two.ids[kind]), path
        for key in (two.member, two.operator):
            status, theirs = said(key, path)
            assert status in ((200,) if key == two.operator else (200, 403)), path
            assert [one for kind in two.ids for one in two.ids[kind] if one in theirs] == [], path


@pytest.mark.slow
def test_ten_thousand_swapped_ids_leak_nothing(two: Two) -> None:
    assert swapped(two, 10_000) == 10_000
