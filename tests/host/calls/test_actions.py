"""Actions of a Shu plugin, through a whole host: listed by the rules, asked about, done once, recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.examples.places import EXAMPLES
from tests.gate.test_governed_calls import Office
from tests.host.conftest import Home

from fixtures.commands import Paddock
from fixtures.daemons import ask
from fixtures.packages import write_file
from paddock import Config, open_host
from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import NotFound, Unavailable
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.daemon.application import build_application
from paddock.host.host import Host
from paddock.ledger.read.entries import list_entries
from paddock.plugins.manage.enable import enable
from paddock.store.database import open_direct
from paddock.web.daemon_address import socket_path
from paddock.web.server.unix_socket import serve_unix_socket

ANN = Principal(PrincipalId("local:ann"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
SCOPES = frozenset({"notes:write", "plugin:shu_notes"})
BOB = Principal(PrincipalId("user:bob"), SCOPES, frozenset({"member"}))
NO_SCOPE = Principal(PrincipalId("user:bob"), frozenset({"plugin:shu_notes"}), frozenset({"member"}))
NOBODY = Principal(PrincipalId("user:eve"), SCOPES)

CODE = """
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
class ActionMeta:
    def __init__(self, **fields): self.__dict__.update(fields)
    def dict(self): return dict(self.__dict__)
class Plugin:
    ACTIONS = [
        ActionMeta(name="keep", description="Keep it", params_schema=SCHEMA, requires_approval=False),
        {"name": "shout", "description": "Shout it", "effects": ["external_send"]},
        {"name": "think", "description": "Think it over", "effects": ["read_only"]},
        {"name": "doubt", "description": "Ask back", "effects": ["read_only"]},
    ]
    async def execute(self, params, context, host):
        await host.storage.put("k", 1)
    async def list_actions(self):
        return self.ACTIONS
    async def perform_action(self, name, args, context, host):
        if name == "keep":
            await host.storage.put("text", args["text"])
            return {"text": await host.storage.get("text"), "key": context["idempotency_key"]}
        if name == "think":
            await host.storage.put("text", "thought")
        if name == "doubt":
            return {"status": "pending_approval", "preview": {}}
        return {"status": "error", "error": {"code": "hoarse", "message": "no voice today"}}
"""
MANIFEST = """
PLUGIN_MANIFEST = {"name": "voice", "version": "1.0.0", "description": "Says things",
                   "entrypoints": {"voice": "voice_plugin:Plugin"}, "capabilities": ["storage"]}
"""


def voice(folder: Path, code: str = CODE) -> Path:
    write_file(folder / "manifest.py", MANIFEST)
    write_file(folder / "voice_plugin.py", code)
    return folder


@pytest.fixture
async def host(home: Home, tmp_path: Path) -> AsyncGenerator[Host, None]:
    for name, package in (("shu_notes", EXAMPLES / "shu-notes"), ("voice", voice(tmp_path / "voice"))):
        home.take(package)
        home.changing(lambda plugins, name=name: enable(plugins, name))
    # What Bob may do is looked up again when a call of his goes on.
    Paddock(home.path).quickly("user", "add", "bob", *(word for scope in SCOPES for word in ("--scope", scope)))
    async with open_host(Config(home=home.path, environ={})) as host:
        yield host


def of(host: Host, principal: Principal) -> CallContext:
    return host.call_context(principal)


def recorded(home: Home, kind: str) -> list[dict[str, Any]]:
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_entries(tx, newest_first=False, limit=1000))
    return [entry.data for entry in entries if entry.type == kind]


async def over(host: Host, call: str) -> Any:
    live = await host.calls.waiting.find(call, DEFAULT_TENANT)
    async with asyncio.timeout(30):
        await live.wait_ended()
    return live.to_json()


# --- listing --------------------------------------------------------------------------------------------------------


@pytest.mark.req("S-34", "metadata")
async def test_actions_are_listed_with_all_that_the_plugin_says_of_them(host: Host) -> None:
    action: Any
    (action,) = await host.calls.actions.list_permitted("shu_notes", of(host, BOB))

    assert (action["name"], action["description"]) == ("add_note", "Add a note")
    assert action["params_schema"]["required"] == ["text"]
    assert (action["required_scopes"], action["requires_approval"]) == (["notes:write"], True)


@pytest.mark.req("S-21", "listed by policy")
async def test_actions_that_somebody_may_not_perform_are_not_listed_for_them(host: Host) -> None:
    assert await host.calls.actions.list_permitted("shu_notes", of(host, NO_SCOPE)) == []
    assert await host.calls.actions.list_permitted("shu_notes", of(host, NOBODY)) == [], "no rule allows them anything"
    with pytest.raises(NotFound):
        await host.calls.actions.list_permitted("nobody", of(host, BOB))


@pytest.mark.req("S-34", "the stricter decides")
async def test_whether_a_person_is_asked_is_the_stricter_of_what_the_plugin_and_the_rules_say(host: Host) -> None:
    listed = {one["name"]: one for one in await host.calls.actions.list_permitted("voice", of(host, BOB))}

    asked = {name: (one["requires_approval"], one["effects"]) for name, one in listed.items()}
    assert asked == {
        "keep": (True, ["unknown"]),  # the plugin wants nobody asked, and does not say what it changes
        "shout": (True, ["external_send"]),
        "think": (False, ["read_only"]),
        "doubt": (False, ["read_only"]),
    }


# --- performing -----------------------------------------------------------------------------------------------------


@pytest.mark.req("S-21", "effects only after approval")
async def test_an_action_waits_with_a_preview_and_is_done_once_somebody_said_yes(host: Host, home: Home) -> None:
    waits: Any = await host.calls.actions.perform("shu_notes", "add_note", {"text": "Water the fig"}, of(host, BOB))
    assert (waits["status"], waits["preview"]["params"]) == ("pending_approval", {"text": "Water the fig"})
    assert (await host.call("shu_notes", {}))["data"] == {"notes": []}, "nothing happened yet"

    await host.approvals.approve(waits["approval"], ANN)
    done = await over(host, waits["action_id"])

    assert done["result"]["status"] == "ok", done
    assert [note["text"] for note in (await host.call("shu_notes", {}))["data"]["notes"]] == ["Water the fig"]
    await host.policy.explanations.explain(waits["action_id"], ANN)  # everything is on disk then
    (consumed,) = recorded(home, "approval.consumed")
    assert (consumed["method"], consumed["approved_by"]) == ("add_note", ["local:ann"])
    (ended,) = [entry for entry in recorded(home, "call.ended") if entry["status"] == "succeeded" and entry["approval"]]
    assert (ended["method"], ended["principal"]) == ("add_note", "user:bob")


@pytest.mark.req("S-21", "done once")
@pytest.mark.req("S-21", "audited with the approver")
async def test_an_action_under_one_key_is_done_once_and_its_record_names_all_who_had_a_part(
    host: Host, home: Home
) -> None:
    def perform() -> Any:
        context = host.call_context(BOB, idempotency_key="k1")
        return host.calls.actions.perform("shu_notes", "add_note", {"text": "Water the fig"}, context)

    first, again = await perform(), await perform()
    await host.approvals.approve(first["approval"], ANN)
    await over(host, first["action_id"])
    done = [await perform() for _ in range(2)]
    await host.policy.explanations.explain(first["action_id"], ANN)  # everything is on disk then

    assert again["approval"] == first["approval"], "nobody is asked twice"
    assert [one["status"] for one in done] == ["ok", "ok"]
    assert done[0]["result"] == done[1]["result"]
    assert len((await host.call("shu_notes", {}))["data"]["notes"]) == 1
    (answered,) = recorded(home, "approval.answered")
    (consumed,) = recorded(home, "approval.consumed")
    (started,) = recorded(home, "call.started")
    assert (answered["answered_by"], answered["approved"]) == ("local:ann", True)
    assert consumed["approved_by"] == ["local:ann"]
    made = {name: started[name] for name in ("principal", "name", "method", "decision", "approval")}
    assert made == {
        "principal": "user:bob",
        "name": "shu_notes",
        "method": "add_note",
        "decision": "ask",
        "approval": first["approval"],
    }
    assert started["payload_hash"]


@pytest.mark.req("S-21", "ok and error")
async def test_what_becomes_of_an_action_is_told_in_its_own_words(host: Host) -> None:
    hoarse: Any = await host.calls.actions.perform("voice", "shout", {}, of(host, ANN))
    await host.approvals.approve(hoarse["approval"], ANN)
    failed = await over(host, hoarse["action_id"])
    assert failed["error"]["message"] == "no voice today"

    denied: Any = await host.calls.actions.perform("voice", "think", {}, of(host, NOBODY))
    assert (denied["status"], denied["error"]["code"]) == ("error", "policy_denied")

    wrong: Any = await host.calls.actions.perform("shu_notes", "add_note", {}, of(host, ANN))
    assert (wrong["status"], wrong["error"]["errors"][0]["path"]) == ("error", "text")

    with pytest.raises(NotFound, match="only reads"):
        await host.calls.actions.perform("shu_notes", "shu_notes", {}, of(host, ANN))


@pytest.mark.req("S-34", "scopes")
async def test_an_action_is_kept_to_callers_with_its_scopes(host: Host) -> None:
    refused: Any = await host.calls.actions.perform("shu_notes", "add_note", {"text": "x"}, of(host, NO_SCOPE))

    assert (refused["status"], refused["error"]["code"]) == ("error", "permission_denied")
    assert refused["error"]["details"]["missing"] == ["notes:write"]


async def test_only_an_action_that_may_change_something_does_and_execute_never_does(host: Host, home: Home) -> None:
    waits: Any = await host.calls.actions.perform("voice", "keep", {"text": "hello"}, of(host, ANN))
    await host.approvals.approve(waits["approval"], ANN)
    kept = await over(host, waits["action_id"])
    assert kept["result"]["result"]["text"] == "hello"

    thought: Any = await host.calls.actions.perform("voice", "think", {}, of(host, ANN))
    assert "does not declare this effect" in thought["error"]["message"]
    with pytest.raises(Exception, match="does not declare this effect"):
        await host.call("voice", {})
    await host.policy.explanations.explain(thought["action_id"], ANN)
    assert [entry["method"] for entry in recorded(home, "plugin.capability_denied")] == ["keyvalue.put"] * 2


@pytest.mark.slow
async def test_a_plugin_that_asks_for_approval_by_itself_has_to_say_so_in_its_list(host: Host) -> None:
    doubt: Any = await host.calls.actions.perform("voice", "doubt", {}, of(host, ANN))

    assert (doubt["status"], doubt["error"]["code"]) == ("error", "action.undeclared_approval")


async def test_code_that_lists_an_action_otherwise_than_its_files_do_is_not_run(home: Home, tmp_path: Path) -> None:
    sly = CODE + "\nPlugin.ACTIONS = [dict(Plugin.ACTIONS[1], requires_approval=True)]\n"
    home.take(voice(tmp_path / "sly", sly))
    home.changing(lambda plugins: enable(plugins, "voice"))
    async with open_host(Config(home=home.path, environ={})) as host:
        with pytest.raises(Unavailable, match="otherwise than its files do"):
            await host.call("voice", {})


async def test_over_http_whoever_acts_too_often_is_told_when_to_try_again(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with (
        office.open(PADDOCK_LIMITS_CALLS_PER_PRINCIPAL="1") as host,
        serve_unix_socket(build_application(host, SystemClock(), SystemRandom()).web, socket_path(host.directories)),
    ):
        where = socket_path(host.directories)
        first, second = [await asyncio.to_thread(ask, where, "POST", "/plugins/mail/actions/note", {}) for _ in "12"]

    assert (first.status, "retry-after" in first.headers) == (200, False)
    assert (second.status, second.body["error"]["code"]) == (429, "rate_limited")
    assert 0 < int(second.headers["retry-after"]) <= 60
