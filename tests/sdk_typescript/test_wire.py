"""The TypeScript SDK's promises, seen from the other end of the pipe."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import Conversation
from tests.sdk_typescript.node import needs_node, program

pytestmark = needs_node
LIMIT = 4 * 1024 * 1024

TINY = """
import { spawnSync } from "node:child_process";
import { ConfigInvalid, createPlugin, InvalidParams } from "SDK";

const kind = { type: "object", properties: { kind: { type: "string" } }, required: ["kind"] };
const plugin = createPlugin({
  name: "tiny",
  version: "1.2.3",
  notifications: ["thing.happened"],
  capabilitiesUsed: ["storage:read"],
  methods: {
    "things.refuse": () => { throw new InvalidParams("kind is missing", { path: "kind" }); },
    "things.break": () => null.nothing,
    "things.unsendable": ({ what }) => ({ bigint: 1n, big: "x".repeat(5_000_000) })[what],
    "things.noisy": (params) => {
      console.log('{"from": "console.log"}');
      process.stdout.write('{"from": "stdout.write"}\\n');
      spawnSync("sh", ["-c", "cat; echo stray"]);
      plugin.log.info("said", { params, unusual: 1n });
      plugin.log.debug("not at this level");
    },
    "things.config": () => ({ config: plugin.config, projects: Object.fromEntries(plugin.projects) }),
  },
  onConfigUpdate: async (config) => {
    if (config.colour === "invisible") throw new ConfigInvalid("nobody can see that colour");
  },
  onShutdown: () => plugin.log.info("goodbye"),
});
plugin
  .tool("echo", (params, { operator_id, project_id, agent_path, session_id, request_id, scopes }) =>
    ({ params, context: { operator_id, project_id, agent_path, session_id, request_id, scopes } }))
  .method("things.count", { input: kind }, async ({ kind }) => {
    const { rows } = await plugin.storage.query("SELECT count(*) AS n FROM things WHERE kind = ?", [kind]);
    return rows[0].n;
  })
  .method("things.make", { input: kind }, async ({ kind }) => {
    const changed = await plugin.storage.exec("INSERT INTO things VALUES (?)", [kind]);
    plugin.notify("thing.happened", { kind });
    return { changed, tables: await plugin.storage.schema() };
  })
  .method("things.move", async () => plugin.storage.transaction(async (together) => {
    await together.exec("DELETE FROM things");
    return await together.exec("INSERT INTO others VALUES (1)");
  }))
  .hook("on_session_start", (_params, call) => ({ inject: call.project_id }))
  .start();
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Conversation, None, None]:
    with program(tmp_path, TINY) as talk:
        yield talk


@pytest.fixture
def greeted(plugin: Conversation) -> Conversation:
    plugin.greet("tiny")
    return plugin


def answered(plugin: Conversation, result: Any) -> Any:
    """The plugin's next request, answered."""
    asked = plugin.receive()
    plugin.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    return asked


@pytest.mark.req("G-28", "typescript handshake")
def test_the_handshake_says_who_the_plugin_is_and_what_it_offers(plugin: Conversation) -> None:
    answer = plugin.greet("tiny")

    assert (answer["name"], answer["version"], answer["api_version"]) == ("tiny", "1.2.3", 1)
    assert "things.count" in answer["methods"] and "tiny.echo" not in answer["methods"]
    assert answer["notifications"] == ["thing.happened"]
    assert answer["capabilities_used"] == ["storage:read"]


@pytest.mark.req("G-28", "typescript handshake")
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


@pytest.mark.req("G-28", "typescript handshake")
def test_a_handshake_for_another_plugin_or_a_second_one_is_refused(plugin: Conversation) -> None:
    assert plugin.error("initialize", {"plugin_name": "huge"})["code"] == -32602
    plugin.greet("tiny")
    assert plugin.error("initialize", {"plugin_name": "tiny"})["code"] == -32600


@pytest.mark.req("G-28", "typescript method routing")
def test_calls_reach_their_handlers_and_unknown_ones_are_not_found(greeted: Conversation) -> None:
    assert greeted.call("tiny.echo", {"a": [1, "ä\ud800"]})["params"] == {"a": [1, "ä\ud800"]}
    assert greeted.call("paddock.hook.on_session_start", {"_context": {"project_id": "music"}}) == {"inject": "music"}
    for unknown in ("echo", "other.echo", "paddock.hook.pre_compact", "things.nothing", "constructor", "__proto__"):
        assert greeted.error(unknown)["code"] == -32601
    assert greeted.error("tiny.echo", [1])["code"] == -32602


@pytest.mark.req("G-28", "typescript method routing")
def test_a_handler_that_fails_costs_only_its_own_call(greeted: Conversation) -> None:
    refused = greeted.error("things.refuse")
    assert refused == {"code": -32602, "message": "kind is missing", "data": {"path": "kind", "no_effect": True}}
    assert greeted.error("things.break") == {"code": -32603, "message": "the plugin failed (TypeError)"}
    for what in ("bigint", "big"):
        unsendable = greeted.error("things.unsendable", {"what": what})
        assert unsendable["code"] == -32603
    assert "at most 4194304 (4 MiB) are allowed" in unsendable["message"]

    assert greeted.call("tiny.echo", {"still": "here"})["params"] == {"still": "here"}
    code, log = greeted.end()
    assert code == 0
    assert [line["method"] for line in log if line["level"] == "error"] == ["things.break", *["things.unsendable"] * 2]


@pytest.mark.req("G-28", "typescript context extraction")
def test_the_context_is_split_off_and_whole(greeted: Conversation) -> None:
    run = {"operator_id": "op", "project_id": "p", "agent_path": "primary", "session_id": "s", "request_id": "r"}
    context = {**run, "scopes": ["mail:read"]}

    seen = greeted.call("tiny.echo", {"_context": context, "_call": "token", "a": 1})
    assert seen == {"params": {"a": 1}, "context": context}
    empty = {**dict.fromkeys(run), "request_id": "", "scopes": []}
    assert greeted.call("tiny.echo", {"_context": None})["context"] == empty
    for odd in ({"operator_id": 7, "other": "x"}, {"scopes": "mail:read"}, {"scopes": [7, None]}):
        assert greeted.call("tiny.echo", {"_context": odd})["context"] == empty


@pytest.mark.req("G-28", "typescript storage proxy")
def test_storage_asks_the_host_with_the_token_of_the_call(greeted: Conversation) -> None:
    call = greeted.ask("things.count", {"kind": "a", "_call": "token-7"})
    asked = answered(greeted, {"rows": [{"n": 3}], "columns": ["n"]})
    assert asked == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "paddock.storage.query",
        "params": {"sql": "SELECT count(*) AS n FROM things WHERE kind = ?", "params": ["a"], "_call": "token-7"},
    }
    assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "result": 3}


@pytest.mark.req("G-28", "typescript storage proxy")
def test_what_the_host_refuses_is_what_the_caller_hears(greeted: Conversation) -> None:
    call = greeted.ask("things.count", {"kind": "a"})
    assert "_call" not in greeted.receive()["params"]
    refusal = {"code": -32003, "message": "storage_access_denied"}
    greeted.send({"jsonrpc": "2.0", "id": 1, "error": refusal})
    assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "error": refusal}


def test_statements_of_a_transaction_name_it_and_are_committed_together(greeted: Conversation) -> None:
    call = greeted.ask("things.move", {"_call": "c"})
    answered(greeted, {"transaction": "t1"})
    asked = [answered(greeted, {"rows_affected": number}) for number in (5, 1)] + [answered(greeted, {})]

    assert [said["method"] for said in asked] == [f"paddock.storage.{verb}" for verb in ("exec", "exec", "commit")]
    assert {(said["params"]["transaction"], said["params"]["_call"]) for said in asked} == {("t1", "c")}
    assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "result": 1}


def test_a_transaction_is_undone_when_a_statement_fails(greeted: Conversation) -> None:
    call = greeted.ask("things.move")
    answered(greeted, {"transaction": "t1"})
    greeted.send({"jsonrpc": "2.0", "id": greeted.receive()["id"], "error": {"code": -32000, "message": "no table"}})
    assert answered(greeted, {})["method"] == "paddock.storage.rollback"
    assert greeted.receive()["error"] == {"code": -32000, "message": "no table"}
    assert greeted.call("tiny.echo") and call


def test_calls_run_side_by_side_and_each_question_belongs_to_its_own_call(greeted: Conversation) -> None:
    calls = [greeted.ask("things.count", {"kind": str(number), "_call": f"c{number}"}) for number in range(3)]
    questions = [greeted.receive() for _ in calls]
    assert [(said["params"]["params"], said["params"]["_call"]) for said in questions] == [
        ([str(number)], f"c{number}") for number in range(3)
    ]
    assert greeted.call("tiny.echo", {"meanwhile": True})["params"] == {"meanwhile": True}
    greeted.send({"jsonrpc": "2.0", "id": 99, "result": "to somebody else"})

    for call, question in reversed(list(zip(calls, questions, strict=True))):
        greeted.send({"jsonrpc": "2.0", "id": question["id"], "result": {"rows": [{"n": call}], "columns": ["n"]}})
        assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "result": call}


def test_more_than_sixteen_calls_wait_for_their_turn(greeted: Conversation) -> None:
    calls = [greeted.ask("things.count", {"kind": "a"}) for _ in range(20)]
    questions = [greeted.receive() for _ in range(16)]
    assert greeted.call("ping") == {"status": "ok"}  # and no seventeenth question before it

    for question in questions:
        greeted.send({"jsonrpc": "2.0", "id": question["id"], "result": {"rows": [{"n": 0}], "columns": ["n"]}})
    said = [greeted.receive() for _ in range(16 + 4)]
    assert sorted(one["id"] for one in said if "result" in one) == calls[:16]
    assert len([one for one in said if "method" in one]) == 4


@pytest.mark.req("G-28", "typescript notification sending")
def test_a_notification_goes_out_before_the_answer_of_the_call_that_sent_it(greeted: Conversation) -> None:
    call = greeted.ask("things.make", {"kind": "b"})
    assert answered(greeted, {"rows_affected": 1})["params"]["sql"] == "INSERT INTO things VALUES (?)"
    assert greeted.receive() == {"jsonrpc": "2.0", "method": "thing.happened", "params": {"kind": "b"}}
    assert answered(greeted, {"tables": ["things"]})["method"] == "paddock.storage.schema"
    assert greeted.receive() == {"jsonrpc": "2.0", "id": call, "result": {"changed": 1, "tables": ["things"]}}


@pytest.mark.req("G-28", "typescript logging")
def test_what_a_plugin_prints_lands_in_the_log_and_never_between_the_answers(greeted: Conversation) -> None:
    assert greeted.call("things.noisy", {"a": 1}) is None
    code, log = greeted.end()

    assert code == 0
    assert {"from": "console.log"} in log and {"from": "stdout.write"} in log
    said = next(line for line in log if line.get("message") == "said")
    assert (said["level"], said["plugin"], said["params"], said["unusual"]) == ("info", "tiny", {"a": 1}, "1")
    assert not any(line.get("level") == "debug" for line in log)


@pytest.mark.req("G-28", "typescript logging")
@pytest.mark.parametrize(("level", "written"), [("debug", 2), ("INFO", 1), ("error", 0), ("odd", 1), ("", 1)])
@pytest.mark.parametrize("namespace", ["paddock", "kaged"])
def test_the_host_says_how_much_is_logged(tmp_path: Path, namespace: str, level: str, written: int) -> None:
    source = (
        f'import {{ createPlugin }} from "SDK"; const p = createPlugin({{name: "p", version: "1", '
        f'namespace: "{namespace}"}}); p.log.debug("d"); p.log.warning("w"); p.start();'
    )
    with program(tmp_path, source, {f"{namespace.upper()}_LOG_LEVEL": level}) as talk:
        talk.greet("p")
        talk.tell("system.rate_limited", {"limit_per_second": 100})
        log = talk.end()[1]
    assert len([line for line in log if line["message"] in ("d", "w")]) == written
    dropped = [line["limit"] for line in log if "drops notifications" in line["message"]]
    assert dropped == ([] if level == "error" else [100])


@pytest.mark.req("G-28", "typescript health response")
def test_a_ping_is_answered_without_any_code_of_the_author(greeted: Conversation) -> None:
    assert greeted.call("ping") == {"status": "ok"}


@pytest.mark.req("G-28", "typescript config update")
def test_a_new_configuration_counts_once_the_plugin_has_accepted_it(greeted: Conversation) -> None:
    assert greeted.call("config.update", {"config": {"colour": "red"}}) == {"status": "ok"}
    refused = greeted.error("config.update", {"config": {"colour": "invisible"}})
    assert refused == {"code": -32004, "message": "nobody can see that colour"}
    assert greeted.error("config.update", {"config": 5})["code"] == -32004
    greeted.call("projects.activated", {"project": "music", "config": {"a": 1}})
    greeted.call("projects.activated", {"project": "home", "config": {}})
    greeted.call("projects.deactivated", {"project": "home"})

    assert greeted.call("things.config") == {"config": {"colour": "red"}, "projects": {"music": {"a": 1}}}


def test_a_call_that_comes_right_after_a_new_configuration_sees_it(greeted: Conversation) -> None:
    greeted.ask("config.update", {"config": {"colour": "blue"}})
    greeted.ask("things.config")
    assert [greeted.receive()["result"] for _ in range(2)] == [
        {"status": "ok"},
        {"config": {"colour": "blue"}, "projects": {}},
    ]


@pytest.mark.req("G-28", "typescript framing")
@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"this is not JSON", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"\xef\xbb\xbf{}", -32700, None),
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


@pytest.mark.req("G-28", "typescript framing")
def test_the_longest_line_that_is_allowed_is_served_and_lines_may_come_in_pieces(greeted: Conversation) -> None:
    head, tail = '{"jsonrpc":"2.0","id":"ä","method":"ping","params":{"a":"'.encode(), b'"}}'
    line = head + b"y" * (LIMIT - len(head) - len(tail)) + tail
    inside_a_letter = line.index(b"\xc3") + 1
    greeted.send_bytes(line[:inside_a_letter])
    greeted.send_bytes(line[inside_a_letter:] + b"\r\n"[1:])
    assert greeted.receive() == {"jsonrpc": "2.0", "id": "ä", "result": {"status": "ok"}}


def test_an_unsound_answer_is_never_answered(greeted: Conversation) -> None:
    for odd in ('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}', '{"id":1,"result":1}'):
        greeted.send_bytes(odd.encode() + b"\n")
    greeted.send({"jsonrpc": "2.0", "id": 1, "error": "not an object"})
    greeted.send({"jsonrpc": "2.0", "id": 44, "result": 1})
    greeted.tell("things.nothing")
    greeted.tell("things.break")
    assert greeted.call("ping") == {"status": "ok"}


@pytest.mark.req("G-28", "typescript shutdown handling")
def test_shutdown_runs_the_last_handler_and_ends_with_zero(greeted: Conversation) -> None:
    greeted.tell("shutdown")
    code, log = greeted.ended()
    assert (code, [line["message"] for line in log]) == (0, ["goodbye"])


@pytest.mark.req("G-28", "typescript shutdown handling")
def test_a_closed_pipe_ends_it_with_zero_also_in_the_middle_of_a_question(greeted: Conversation) -> None:
    greeted.ask("things.count", {"kind": "a"})
    assert greeted.receive()["method"] == "paddock.storage.query"
    code, log = greeted.end()
    assert (code, [line["message"] for line in log]) == (0, ["goodbye"])


def test_a_host_that_reads_no_more_ends_it_with_zero(greeted: Conversation) -> None:
    assert greeted.process.stdout
    greeted.process.stdout.close()
    greeted.ask("ping")
    assert greeted.process.wait(30) == 0


def test_what_was_asked_before_the_pipe_was_closed_is_still_answered(greeted: Conversation) -> None:
    calls = [greeted.ask("tiny.echo", {"turn": turn}) for turn in range(20)]
    assert greeted.process.stdin
    greeted.process.stdin.close()
    assert [greeted.receive()["id"] for _ in calls] == calls
    assert greeted.ended()[0] == 0


def test_a_last_handler_that_fails_shows_in_the_exit_code(tmp_path: Path) -> None:
    source = (
        'import { createPlugin } from "SDK"; createPlugin({name: "p", version: "1", '
        'onShutdown: async () => { throw new Error("the disk is full"); }}).start();'
    )
    with program(tmp_path, source) as talk:
        talk.greet("p")
        talk.tell("shutdown")
        code, log = talk.ended()
    assert code == 1
    assert "the disk is full" in log[-1]["stack"]
