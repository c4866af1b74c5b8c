"""shell-status: the protocol in bash and jq."""

from __future__ import annotations

import subprocess
from collections.abc import Generator

import pytest
import yaml
from tests.examples.places import EXAMPLES, schema_errors
from tests.sdk.conversation import Conversation, conversation

ROOT = EXAMPLES / "shell-status"
MANIFEST = yaml.safe_load((ROOT / "kaged-plugin.yaml").read_text())


@pytest.fixture
def plugin() -> Generator[Conversation, None, None]:
    with conversation(MANIFEST["command"], ROOT) as talk:
        yield talk


def test_the_handshake_keeps_the_manifests_promises(plugin: Conversation) -> None:
    answer = plugin.greet("shell-status")
    assert (answer["name"], answer["version"], answer["api_version"]) == (MANIFEST["name"], MANIFEST["version"], 1)
    assert answer["methods"] == [method["name"] for method in MANIFEST["methods"]]
    assert answer["capabilities_used"] == []


def test_the_status_fits_its_schema_and_names_the_request(plugin: Conversation) -> None:
    plugin.greet("shell-status", {})
    odd = 'r"1\\\n\t$(touch /tmp/x) `id`'
    status = plugin.call("status.get", {"_context": {"request_id": odd}})
    assert schema_errors(MANIFEST["methods"][0]["result_schema"], status) == []
    assert status["request_id"] == odd
    assert plugin.call("status.get")["request_id"] is None


def test_ids_come_back_as_they_were_sent(plugin: Conversation) -> None:
    for request_id in (0, -1, 1.5, "1", 'a"b\\\nc', "$(id)", "ä猫"):
        plugin.send({"jsonrpc": "2.0", "id": request_id, "method": "ping"})
        assert plugin.receive() == {"jsonrpc": "2.0", "id": request_id, "result": {"status": "ok"}}


def test_a_call_before_the_handshake_is_over_is_not_initialized(plugin: Conversation) -> None:
    assert plugin.error("status.get")["code"] == -32002


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


def test_shutdown_ends_it_with_zero(plugin: Conversation) -> None:
    plugin.tell("shutdown")
    assert plugin.ended() == (0, [])


def test_the_script_is_clean() -> None:
    done = subprocess.run(["shellcheck", ROOT / "status.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
