"""What belongs to one caller is of no use to another: sessions, streams, handles, tools, and other tenants' plugins."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import pytest
from tests.mcp_server.speaking import FORMS, Client, alone, asking, calling, headers_of, listening, send, stamped

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.parrot import parrot

RULE = """
@id("nobody-burns") @text("Burning is for the operator.")
forbid (principal, action in Action::"anyCall", resource == Callable::"parrot.burn")
unless { principal in Role::"operator" };
"""


@dataclass(frozen=True, slots=True)
class Peopled:
    """A daemon, and the credentials of people of two tenants."""

    daemon: Daemon
    keys: dict[str, dict[str, str]] = field(default_factory=dict)

    def client(self, who: str, **options: Any) -> Client:
        return Client(self.daemon, more=self.keys[who], **options)

    def tools(self, who: str) -> set[str]:
        return {tool["name"] for tool in self.client(who).ask("tools/list").result["tools"]}


@pytest.fixture(scope="module")
def peopled(tmp_path_factory: pytest.TempPathFactory) -> Generator[Peopled, None, None]:
    folder = tmp_path_factory.mktemp("callers")
    paddock = Paddock(folder / "home")
    for make in (parrot, butler):
        paddock.quickly("plugin", "install", make(folder / make.__name__), "--yes")
        paddock.quickly("plugin", "enable", make.__name__)
    policies = paddock.home / "policies"
    policies.mkdir(mode=0o700)
    (policies / "own.cedar").write_text(RULE)
    (policies / "own.cedar").chmod(0o600)
    for name in ("ann", "bob"):
        paddock.quickly("user", "add", name)
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "zoe", "--tenant", "acme")
    keys = {
        name: paddock.quickly("apikey", "add", name, "--json", *options).json["token"]
        for name, options in (("ann", ()), ("bob", ()), ("zoe", ("--tenant", "acme")))
    }
    with daemon(paddock) as started:
        yield Peopled(started, {name: {"authorization": f"Bearer {key}"} for name, key in keys.items()})


def test_a_session_is_not_found_by_anybody_but_whose_it_is(peopled: Peopled) -> None:
    mine = peopled.client("ann")
    for other in ("bob", "zoe"):
        headers = mine.headers | peopled.keys[other]
        assert send(peopled.daemon, "POST", asking("tools/list"), **headers).status == 404
        assert send(peopled.daemon, "GET", **headers).status == 404
        assert send(peopled.daemon, "DELETE", **headers).status == 404
    without = {name: value for name, value in mine.headers.items() if name != "authorization"}
    assert send(peopled.daemon, "POST", asking("tools/list"), **without).status == 404, "nor by the operator"
    assert mine.ask("tools/list").status == 200


def test_a_handle_is_of_no_use_to_anybody_else(peopled: Peopled) -> None:
    asked = alone(peopled.daemon, calling("butler__paint"), FORMS, **peopled.keys["ann"]).result
    again = calling("butler__paint", 2)
    again["params"] |= {"requestState": asked["requestState"], "inputResponses": {"q1": {"action": "decline"}}}
    for other in ("bob", "zoe"):
        stolen = alone(peopled.daemon, again, FORMS, **peopled.keys[other])
        assert "error" in stolen.message
    mine = alone(peopled.daemon, again, FORMS, **peopled.keys["ann"])
    assert mine.result["structuredContent"] == {"action": "decline"}


@pytest.mark.req("B-01", "the same policy")
def test_what_the_rules_keep_from_somebody_is_not_listed_and_not_called(peopled: Peopled) -> None:
    everything = {tool["name"] for tool in Client(peopled.daemon).ask("tools/list").result["tools"]}
    assert everything - peopled.tools("ann") == {"parrot__burn"}
    denied = peopled.client("ann").call("parrot__burn", seconds=0).result
    assert denied["_meta"]["dev.paddock/error"]["code"] == "policy_denied"


def test_another_tenants_plugins_are_as_unknown_as_what_nobody_has(peopled: Peopled) -> None:
    zoe = peopled.client("zoe")
    assert zoe.ask("tools/list").result["tools"] == []
    assert zoe.ask("resources/list").result["resources"] == []
    assert zoe.ask("prompts/list").result["prompts"] == []
    theirs, nobodys = zoe.call("parrot__say", text="x").error, zoe.call("parrot__nay", text="x").error
    assert theirs["message"].replace("say", "…") == nobodys["message"].replace("nay", "…")
    assert zoe.ask("resources/read", uri="memo://one").error["code"] == -32002
    assert zoe.ask("prompts/get", name="butler__greet", arguments={"who": "x"}).error["code"] == -32602


def test_nobody_gets_in_without_a_credential_that_is_good(peopled: Peopled) -> None:
    refused = send(peopled.daemon, "POST", asking("tools/list"), authorization="Bearer nonsense")
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Bearer ")
    assert refused.headers["content-type"] == "application/json", "a form that clients read, and show people"
    assert "Authorization: Bearer KEY" in refused.error["message"]
    assert refused.error["data"]["code"] == "auth.refused"


def test_a_caller_has_so_many_sessions_and_the_oldest_idle_one_gives_way(peopled: Peopled) -> None:
    first, busy = peopled.client("bob"), peopled.client("bob")
    with busy.following():
        last = [peopled.client("bob") for _ in range(63)][-1]
        assert first.ask("ping").status == 404
        assert busy.ask("ping").status == 200
    assert last.ask("ping").status == 200


@pytest.mark.req("B-23", "revoked rights end open streams")
def test_streams_end_within_seconds_once_the_key_that_opened_them_is_revoked(peopled: Peopled) -> None:
    paddock = peopled.daemon.paddock
    made = paddock.quickly("apikey", "add", "ann", "--json").json
    key = {"authorization": f"Bearer {made['token']}"}
    client = Client(peopled.daemon, more=key)
    listens = asking("subscriptions/listen", 4, notifications={"toolsListChanged": True})
    with (
        client.following() as standing,
        listening(peopled.daemon, "GET", where="/mcp/sse", **key) as older,
        listening(peopled.daemon, "POST", stamped(listens), **(headers_of(listens) | key)) as news,
        peopled.client("bob").following() as others,
    ):
        posted_to = next(older)["data"]
        assert next(news)["data"]["method"] == "notifications/subscriptions/acknowledged"
        paddock.quickly("apikey", "remove", made["id"], "--yes")
        with ThreadPoolExecutor() as readers:
            theirs = [readers.submit(list, stream) for stream in (standing, older, news)]
            for change in cycle(("disable", "enable")):
                paddock.quickly("plugin", change, "butler")
                # Each change by itself: two that undo each other at once are none. And somebody else's stream goes on.
                assert any(event["data"]["method"].endswith("/tools/list_changed") for event in others)
                if change == "enable" and all(one.done() for one in theirs):
                    break
        assert not any("result" in event["data"] for one in theirs for event in one.result())
    assert send(peopled.daemon, "POST", asking("ping"), where=posted_to, **key).status == 401
    assert send(peopled.daemon, "POST", asking("ping"), where=posted_to, **peopled.keys["bob"]).status == 404
