"""The SDK's promises, seen from the other end of the pipe."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import Conversation, conversation

LIMIT = 4 * 1024 * 1024

TINY = '''
import os, subprocess
from paddock_sdk import ConfigInvalid, Context, InvalidParams, JsonObject, Plugin

plugin = Plugin("tiny", "1.2.3", notifications=["thing.happened"], capabilities_used=["storage:read"])

@plugin.tool
def echo(params: JsonObject, context: Context):
    return {"params": params, "context": context._asdict()}

@plugin.method("things.count")
def count(params: JsonObject, context: Context):
    return plugin.storage.query("SELECT count(*) AS n FROM things WHERE kind = ?", [params["kind"]]).rows[0]["n"]

@plugin.method("things.make")
def make(params: JsonObject, context: Context):
    changed = plugin.storage.exec("INSERT INTO things VALUES (?)", [params["kind"]])
    plugin.notify("thing.happened", {"kind": params["kind"]})
    return {"changed": changed, "tables": plugin.storage.schema()}

@plugin.method("things.refuse")
def refuse(params: JsonObject, context: Context):
    raise InvalidParams("kind is missing", {"path": "kind"})

@plugin.method("things.break")
def break_it(params: JsonObject, context: Context):
    return 1 / 0

@plugin.method("things.unsendable")
def unsendable(params: JsonObject, context: Context):
    return {"set": {1}, "nan": float("nan"), "big": "x" * 5_000_000}[params["what"]]

@plugin.method("things.noisy")
def noisy(params: JsonObject, context: Context):
    print('{"from": "print"}', flush=True)
    subprocess.run(["sh", "-c", """cat; echo '{"from": "a child"}'"""], check=True)
    plugin.log.info("said", params=params, unusual={1})
    plugin.log.debug("not at this level")
    return None

@plugin.method("things.killed")
def killed(params: JsonObject, context: Context):
    print('{"from": "its last print"}')
    os.kill(os.getpid(), 9)

@plugin.method("things.config")
def config(params: JsonObject, context: Context):
    return {"config": plugin.config, "projects": plugin.projects}

@plugin.hook("on_session_start")
def start(params: JsonObject, context: Context):
    return {"inject": context.project_id}

@plugin.on_config
def check(config: JsonObject):
    if config.get("colour") == "invisible":
        raise ConfigInvalid("nobody can see that colour")

@plugin.on_shutdown
def bye():
    plugin.log.info("goodbye")

plugin.run()
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Conversation, None, None]:
    (tmp_path / "tiny.py").write_text(TINY)
    with conversation(["python3", "tiny.py"], tmp_path) as talk:
        yield talk


@pytest.fixture
def greeted(plugin: Conversation) -> Conversation:
    plugin.greet("tiny")
    return plugin


@pytest.mark.req("G-28", "python handshake")
def test_the_handshake_says_who_the_plugin_is_and_what_it_offers(plugin: Conversation) -> None:
    answer = plugin.greet("tiny")

    assert (answer["name"], answer["version"], answer["api_version"]) == ("tiny", "1.2.3", 1)
    assert "things.count" in answer["methods"] and "tiny.echo" not in answer["methods"]
    assert answer["notifications"] == ["thing.happened"]
    assert answer["capabilities_used"] == ["storage:read"]


@pytest.mark.req("G-15", "-32002")
@pytest.mark.req("G-28", "python handshake")
def test_a_call_before_the_handshake_is_over_is_not_initialized(plugin: Conversation) -> None:
    assert plugin.error("tiny.echo")["code"] == -32002
    assert plugin.error("ping")["code"] == -32002
    plugin.tell("initialized")
    assert plugin.error("tiny.echo")["code"] == -32002
    plugin.call("initialize", {"plugin_name": "tiny", "api_version": 1})
    assert plugin.error("tiny.echo")["code"] == -32002
    assert plugin.call("config.update", {"config": {}}) == {"status": "ok"}
    plugin.tell("initialized")
    assert plugin.call("tiny.echo")["params"] == {}


@pytest.mark.req("G-28", "python handshake")
def test_a_handshake_for_another_plugin_or_a_second_one_is_refused(plugin: Conversation) -> None:
    assert plugin.error("initialize", {"plugin_name": "huge"})["code"] == -32602
    plugin.greet("tiny")
    assert plugin.error("initialize", {"plugin_name": "tiny"})["code"] == -32600


@pytest.mark.req("G-28", "python method routing")
def test_calls_reach_their_handlers_and_unknown_ones_are_not_found(greeted: Conversation) -> None:
    assert greeted.call("tiny.echo", {"a": [1, "ä\ud800"]})["params"] == {"a": [1, "ä\ud800"]}
    assert greeted.call("paddock.hook.on_session_start", {"_context": {"project_id": "music"}}) == {"inject": "music"}
    for unknown in ("echo", "other.echo", "paddock.hook.pre_compact", "things.nothing"):
        assert greeted.error(unknown)["code"] == -32601
    assert greeted.error("tiny.echo", [1])["code"] == -32602


@pytest.mark.req("G-28", "python method routing")
def test_a_handler_that_fails_costs_only_its_own_call(greeted: Conversation) -> None:
    refused = greeted.error("things.refuse")
    assert refused == {"code": -32602, "message": "kind is missing", "data": {"path": "kind", "no_effect": True}}
    assert greeted.error("things.break") == {"code": -32603, "message": "the plugin failed (ZeroDivisionError)"}
    for what in ("set", "nan", "big"):
        unsendable = greeted.error("things.unsendable", {"what": what})
        assert unsendable["code"] == -32603
    assert "at most 4194304 (4 MiB) are allowed" in unsendable["message"]

    assert greeted.call("tiny.echo", {"still": "here"})["params"] == {"still": "here"}
    code, log = greeted.end()
    assert code == 0
    assert [line["method"] for line in log if line["level"] == "error"] == ["things.break", *["things.unsendable"] * 3]


@pytest.mark.req("G-28", "python context extraction")
def test_the_context_is_split_off_and_whole(greeted: Conversation) -> None:
    run = {"operator_id": "op", "project_id": "p", "agent_path": "primary", "session_id": "s", "request_id": "r"}
    run["idempotency_key"] = "k1"
    context = {**run, "scopes": ["mail:read"]}

    seen = greeted.call("tiny.echo", {"_context": context, "_call": "token", "a": 1})
    assert seen == {"params": {"a": 1}, "context": context}
    empty = {**dict.fromkeys(run), "request_id": "", "scopes": []}
    assert greeted.call("tiny.echo", {"_context": None})["context"] == empty
    for odd in ({"operator_id": 7, "other": "x"}, {"scopes": "mail:read"}, {"scopes": [7, None]}):
        assert greeted.call("tiny.echo", {"_context": odd})["context"] == empty


@pytest.mark.req("G-28", "python storage proxy")
def test_storage_asks_the_host_with_the_token_of_the_call(greeted: Conversation) -> None:
    call = greeted.ask("things.count", {"kind": "a", "_call": "token-7"})
    asked = greeted.receive()
    assert asked == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "paddock.storage.query",
        "params": {"sql": "SELECT count(*) AS n FROM things WHERE kind = ?", "params": ["a"], "_call": "token-7"},
    }
    greeted.send({"jsonrpc": "2.0", "id": 1, "result": {"rows": [{"n": 3}], "columns": ["n"]}})
    assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "result": 3}


@pytest.mark.req("G-28", "python storage proxy")
def test_what_the_host_refuses_is_what_the_caller_hears(greeted: Conversation) -> None:
    call = greeted.ask("things.count", {"kind": "a"})
    assert "_call" not in greeted.receive()["params"]
    greeted.send({"jsonrpc": "2.0", "id": 1, "error": {"code": -32003, "message": "storage_access_denied"}})
    assert greeted.receive() == {
        "jsonrpc": "2.0",
        "id": call,
        "error": {"code": -32003, "message": "storage_access_denied"},
    }


def test_calls_that_arrive_while_a_handler_waits_are_answered_after_it_and_a_ping_at_once(
    greeted: Conversation,
) -> None:
    waiting = greeted.ask("things.count", {"kind": "a"})
    assert greeted.receive()["method"] == "paddock.storage.query"
    later = greeted.ask("tiny.echo", {"turn": 2})
    ping = greeted.ask("ping")
    assert greeted.receive() == {"jsonrpc": "2.0", "id": ping, "result": {"status": "ok"}}

    greeted.send({"jsonrpc": "2.0", "id": 99, "result": "to somebody else"})
    greeted.send({"jsonrpc": "2.0", "id": 1, "result": {"rows": [{"n": 1}], "columns": ["n"]}})
    assert greeted.receive()["id"] == waiting
    assert greeted.receive()["id"] == later


@pytest.mark.req("G-28", "python notification sending")
def test_a_notification_goes_out_before_the_answer_of_the_call_that_sent_it(greeted: Conversation) -> None:
    call = greeted.ask("things.make", {"kind": "b"})
    assert greeted.receive()["params"]["sql"] == "INSERT INTO things VALUES (?)"
    greeted.send({"jsonrpc": "2.0", "id": 1, "result": {"rows_affected": 1}})
    assert greeted.receive() == {"jsonrpc": "2.0", "method": "thing.happened", "params": {"kind": "b"}}
    assert greeted.receive()["method"] == "paddock.storage.schema"
    greeted.send({"jsonrpc": "2.0", "id": 2, "result": {"tables": ["things"]}})
    assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "result": {"changed": 1, "tables": ["things"]}}


@pytest.mark.req("G-28", "python logging")
def test_prints_of_the_plugin_and_of_its_children_land_in_the_log_and_never_between_the_answers(
    greeted: Conversation,
) -> None:
    assert greeted.call("things.noisy", {"a": 1}) is None
    code, log = greeted.end()

    assert code == 0
    assert {"from": "print"} in log and {"from": "a child"} in log
    said = next(line for line in log if line.get("message") == "said")
    assert (said["level"], said["plugin"], said["params"], said["unusual"]) == ("info", "tiny", {"a": 1}, "{1}")
    assert not any(line.get("level") == "debug" for line in log)


def test_what_is_printed_is_in_the_log_even_if_the_process_is_killed_next(greeted: Conversation) -> None:
    greeted.ask("things.killed")

    code, log = greeted.ended()

    assert code == -9
    assert log == [{"from": "its last print"}]


@pytest.mark.req("G-28", "python health response")
def test_a_ping_is_answered_without_any_code_of_the_author(greeted: Conversation) -> None:
    assert greeted.call("ping") == {"status": "ok"}


@pytest.mark.req("G-28", "python config update")
def test_a_new_configuration_counts_once_the_plugin_has_accepted_it(greeted: Conversation) -> None:
    assert greeted.call("config.update", {"config": {"colour": "red"}}) == {"status": "ok"}
    refused = greeted.error("config.update", {"config": {"colour": "invisible"}})
    assert refused == {"code": -32004, "message": "nobody can see that colour"}
    assert greeted.error("config.update", {"config": 5})["code"] == -32004
    greeted.call("projects.activated", {"project": "music", "config": {"a": 1}})
    greeted.call("projects.activated", {"project": "home", "config": {}})
    greeted.call("projects.deactivated", {"project": "home"})

    assert greeted.call("things.config") == {"config": {"colour": "red"}, "projects": {"music": {"a": 1}}}


@pytest.mark.req("G-15", "-32700")
@pytest.mark.req("G-15", "-32600")
@pytest.mark.req("G-28", "python framing")
@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"this is not JSON", -32700, None),
        (b"\xff\xfe", -32700, None),
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"), -32700, None),
        (b"[" * 200_000, -32700, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'"ping"', -32600, None),
        (b"{}", -32600, None),
        (b'{"id":5,"method":"ping"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b"x" * (LIMIT + 1), -32600, None),
        (b"x" * (3 * LIMIT), -32600, None),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
def test_a_malformed_line_gets_an_error_and_the_next_line_is_served(
    greeted: Conversation, line: bytes, code: int, request_id: Any
) -> None:
    greeted.send_bytes(line + b"\n")

    answer = greeted.receive()
    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    assert greeted.call("ping") == {"status": "ok"}


@pytest.mark.req("G-28", "python framing")
def test_the_longest_line_that_is_allowed_is_served_and_lines_may_come_in_pieces(greeted: Conversation) -> None:
    head, tail = b'{"jsonrpc":"2.0","id":"x","method":"ping","params":{"a":"', b'"}}'
    line = head + b"y" * (LIMIT - len(head) - len(tail)) + tail
    greeted.send_bytes(line[:1000])
    greeted.send_bytes(line[1000:] + b"\n")
    assert greeted.receive() == {"jsonrpc": "2.0", "id": "x", "result": {"status": "ok"}}


def test_an_unsound_answer_is_never_answered(greeted: Conversation) -> None:
    for odd in ('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}', '{"id":1,"result":1}'):
        greeted.send_bytes(odd.encode() + b"\n")
    greeted.send({"jsonrpc": "2.0", "id": 1, "error": "not an object"})
    greeted.send({"jsonrpc": "2.0", "id": 44, "result": 1})
    greeted.tell("things.nothing")
    greeted.tell("things.break")
    assert greeted.call("ping") == {"status": "ok"}


@pytest.mark.req("G-28", "python shutdown handling")
def test_shutdown_runs_the_last_handler_and_ends_with_zero(greeted: Conversation) -> None:
    greeted.tell("shutdown")
    code, log = greeted.ended()
    assert (code, [line["message"] for line in log]) == (0, ["goodbye"])


@pytest.mark.req("G-28", "python shutdown handling")
def test_a_closed_pipe_ends_it_with_zero_also_in_the_middle_of_a_question(plugin: Conversation) -> None:
    plugin.greet("tiny")
    plugin.ask("things.count", {"kind": "a"})
    assert plugin.receive()["method"] == "paddock.storage.query"
    code, log = plugin.end()
    assert (code, [line["message"] for line in log]) == (0, ["goodbye"])


def test_a_host_that_reads_no_more_ends_it_with_zero(greeted: Conversation) -> None:
    assert greeted.process.stdout
    greeted.process.stdout.close()
    greeted.ask("ping")
    assert greeted.process.wait(30) == 0
