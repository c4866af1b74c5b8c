"""shell-status: the protocol in bash and jq."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
import yaml
from tests.examples.places import EXAMPLES, schema_errors
from tests.sdk.conversation import Conversation, conversation

ROOT = EXAMPLES / "shell-status"
MANIFEST = yaml.safe_load((ROOT / "kaged-plugin.yaml").read_text())

OTHER = """
NAME=other VERSION=1.0.0 NOTIFICATIONS=() CAPABILITIES=()
declare -A METHODS=([text.size]=size [it.fails]=fails [it.prints]=prints)
source ./rpc.sh
size() {
    jq -e '.text | type == "string"' <<<"$PARAMS" >/dev/null || fault -32602 'text must be text' || return
    RESULT=$(jq '.text | length' <<<"$PARAMS")
}
fails() { false; }
prints() { echo '{"from": "echo"}'; cat; }
on_shutdown() { log info bye; }
serve
"""


@pytest.fixture
def plugin() -> Generator[Conversation, None, None]:
    with conversation(MANIFEST["command"], ROOT) as talk:
        yield talk


@pytest.mark.req("G-28", "shell handshake")
def test_the_handshake_keeps_the_manifests_promises(plugin: Conversation) -> None:
    answer = plugin.greet("shell-status")
    assert (answer["name"], answer["version"], answer["api_version"]) == (MANIFEST["name"], MANIFEST["version"], 1)
    assert sorted(answer["methods"]) == [method["name"] for method in MANIFEST["methods"]]
    assert answer["notifications"] == MANIFEST["notifications"]
    assert answer["capabilities_used"] == ["kaged:storage:write"]


@pytest.mark.req("G-28", "shell context extraction")
def test_the_status_fits_its_schema_and_names_the_request(plugin: Conversation) -> None:
    plugin.greet("shell-status", {})
    odd = 'r"1\\\n\t$(touch /tmp/x) `id`'
    status = plugin.call("status.get", {"_context": {"request_id": odd}})
    assert schema_errors(MANIFEST["methods"][0]["result_schema"], status) == []
    assert status["request_id"] == odd
    assert plugin.call("status.get")["request_id"] is None


@pytest.mark.req("G-28", "shell health response")
def test_ids_come_back_as_they_were_sent(plugin: Conversation) -> None:
    for request_id in (0, -1, 1.5, "1", 'a"b\\\nc', "$(id)", "ä猫"):
        plugin.send({"jsonrpc": "2.0", "id": request_id, "method": "ping"})
        assert plugin.receive() == {"jsonrpc": "2.0", "id": request_id, "result": {"status": "ok"}}


@pytest.mark.req("G-28", "shell handshake")
def test_a_call_before_the_handshake_is_over_is_not_initialized(plugin: Conversation) -> None:
    assert plugin.error("status.get")["code"] == -32002


@pytest.mark.req("G-28", "shell framing")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not JSON", -32700),
        (b"", -32700),
        (b"{} {}", -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 300_000 + b'","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"no.such"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping\\nshutdown"}', -32601),
    ],
    ids=lambda value: repr(value[:48]) if isinstance(value, bytes) else None,
)
def test_a_malformed_line_gets_its_error_and_the_next_is_served(plugin: Conversation, line: bytes, code: int) -> None:
    plugin.send_bytes(line + b"\n")
    assert plugin.receive()["error"]["code"] == code
    assert plugin.call("ping") == {"status": "ok"}


def test_an_answer_is_never_answered_and_goes_to_the_log(plugin: Conversation) -> None:
    plugin.send({"jsonrpc": "2.0", "id": 3, "result": {}})
    plugin.tell("no.such")
    assert plugin.call("ping") == {"status": "ok"}
    code, log = plugin.end()
    assert (code, [(line["level"], line["plugin"]) for line in log]) == (0, [("warning", "shell-status")])


@pytest.mark.req("G-28", "shell framing")
def test_a_line_may_come_in_pieces_and_the_last_may_lack_its_end(plugin: Conversation) -> None:
    plugin.send_bytes(b'{"jsonrpc":"2.0",')
    plugin.send_bytes(b'"id":1,"method":"ping"}\r\n{"jsonrpc":"2.0","id":2,"method":"ping"}')
    assert plugin.receive()["id"] == 1
    assert plugin.process.stdin
    plugin.process.stdin.close()
    assert plugin.receive()["id"] == 2
    assert plugin.ended() == (0, [])


@pytest.mark.req("G-28", "shell method routing")
def test_calls_reach_their_functions_and_nothing_else_of_the_script(plugin: Conversation) -> None:
    plugin.greet("shell-status")
    assert plugin.call("status.get")["status"] in ("ok", "busy")
    for other in ("status.other", "get_status", "log", "status", "status.get "):
        assert plugin.error(other)["code"] == -32601


@pytest.mark.req("G-28", "shell config update")
def test_a_new_configuration_counts_once_it_was_accepted(plugin: Conversation) -> None:
    load = os.getloadavg()[0]  # on an idle machine nothing is above any limit
    plugin.greet("shell-status", {"busy_above": 1e9})
    assert plugin.call("status.get")["status"] == "ok"

    refused = plugin.error("config.update", {"config": {"busy_above": -1}})
    assert refused == {"code": -32004, "message": "busy_above must be a number above 0"}
    assert plugin.error("config.update", {"config": 5})["code"] == -32004
    assert plugin.call("status.get")["status"] == "ok"
    plugin.call("config.update", {"config": {"busy_above": 1e-9}})
    assert plugin.call("status.get")["status"] == ("busy" if load > 0 else "ok")


@pytest.mark.req("G-28", "shell notification sending")
@pytest.mark.req("G-28", "shell storage proxy")
def test_it_keeps_rows_with_the_host_and_announces_it_before_it_answers(plugin: Conversation) -> None:
    plugin.greet("shell-status")
    call = plugin.ask("status.keep", {"_call": "token-7"})
    asked: list[str] = []
    for answer in (
        {"rows_affected": 0},
        {"rows_affected": 1},
        {"rows": [{"kept": 1, "highest": 0.5}], "columns": ["kept", "highest"]},
    ):
        question = plugin.receive()
        assert question["params"]["_call"] == "token-7"
        asked.append(question["method"])
        plugin.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})

    assert asked == ["kaged.storage.exec", "kaged.storage.exec", "kaged.storage.query"]
    kept = {"kept": 1, "highest": 0.5}
    assert plugin.receive() == {"jsonrpc": "2.0", "method": "status.kept", "params": kept}
    assert plugin.receive() == {"jsonrpc": "2.0", "id": call, "result": kept}


@pytest.mark.req("G-28", "shell storage proxy")
@pytest.mark.req("G-28", "shell health response")
def test_while_it_waits_for_the_host_pings_are_answered_and_calls_are_kept(plugin: Conversation) -> None:
    plugin.greet("shell-status")
    keeping = plugin.ask("status.keep")
    question = plugin.receive()
    later = plugin.ask("status.get")
    ping = plugin.ask("ping")
    assert plugin.receive() == {"jsonrpc": "2.0", "id": ping, "result": {"status": "ok"}}

    denied = {"code": -32003, "message": "storage_access_denied"}
    plugin.send({"jsonrpc": "2.0", "id": question["id"], "error": denied})
    assert plugin.receive() == {"jsonrpc": "2.0", "id": keeping, "error": denied}
    assert plugin.receive()["id"] == later


@pytest.mark.req("G-28", "shell shutdown handling")
def test_a_closed_pipe_ends_it_also_in_the_middle_of_a_question(plugin: Conversation) -> None:
    plugin.greet("shell-status")
    plugin.ask("status.keep")
    assert plugin.receive()["method"] == "kaged.storage.exec"
    assert plugin.end() == (0, [])


@pytest.mark.req("G-28", "shell shutdown handling")
def test_shutdown_ends_it_with_zero(plugin: Conversation) -> None:
    plugin.tell("shutdown")
    assert plugin.ended() == (0, [])


@pytest.mark.req("G-28", "shell logging")
def test_the_protocol_file_serves_another_plugin_whatever_its_methods_print_or_break(tmp_path: Path) -> None:
    shutil.copy(ROOT / "rpc.sh", tmp_path)
    (tmp_path / "other.sh").write_text(OTHER)
    with conversation(["bash", "./other.sh"], tmp_path) as plugin:
        plugin.greet("other")
        assert plugin.call("text.size", {"text": "x" * 500_000}) == 500_000
        assert plugin.error("text.size", {"text": 5}) == {"code": -32602, "message": "text must be text"}
        assert plugin.error("it.fails")["code"] == -32603
        assert plugin.call("it.prints") is None
        plugin.tell("shutdown")
        code, log = plugin.ended()
    assert code == 0
    assert log == [
        {"level": "error", "plugin": "other", "message": "it.fails failed"},
        {"from": "echo"},
        {"level": "info", "plugin": "other", "message": "bye"},
    ]


def test_the_script_is_clean() -> None:
    done = subprocess.run(["shellcheck", "-x", "status.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
