"""A call that nobody wants any more: what the SDK does when the host says so."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import Conversation, conversation

PATIENT = '''
import time
from paddock_sdk import Cancelled, Plugin

plugin = Plugin("patient", "1.0.0", namespace="NAMESPACE")

def until_told():
    """Poll as a handler does, but not for ever: a test that failed must not leave this running."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        yield

@plugin.tool
def wait(params, context):
    plugin.progress(0)
    for _ in until_told():
        plugin.check_cancelled()

@plugin.tool
def tidy(params, context):
    plugin.progress(0)
    for _ in until_told():
        if plugin.cancelled():
            return {"stopped": True}

@plugin.tool
def stream(params, context):
    try:
        for _ in until_told():
            yield {"tick": True}
    except Cancelled:
        yield {"closing": True}
        raise
    finally:
        plugin.log.info("cleaned up")

@plugin.tool
def ask(params, context):
    rows = plugin.storage.query("SELECT 1").rows
    return {"rows": rows, "cancelled": plugin.cancelled()}

@plugin.tool
def quick(params, context):
    return params

plugin.run()
'''


@pytest.fixture(params=["paddock", "kaged"])
def namespace(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def plugin(tmp_path: Path, namespace: str) -> Generator[Conversation, None, None]:
    (tmp_path / "patient.py").write_text(PATIENT.replace("NAMESPACE", namespace))
    with conversation(["python3", "patient.py"], tmp_path) as talk:
        talk.greet("patient")
        yield talk


def cancelled(request_id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": -32000, "message": "cancelled"}}


def begun(plugin: Conversation, tool: str) -> int:
    """A call whose handler is known to run."""
    request_id = plugin.ask(f"patient.{tool}")
    assert plugin.receive()["params"]["id"] == request_id
    return request_id


def test_the_handshake_says_that_calls_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT.replace("NAMESPACE", "paddock"))
    with conversation(["python3", "patient.py"], tmp_path) as plugin:
        assert plugin.greet("patient")["features"] == ["call_tokens", "cancel", "events"]


def test_a_handler_that_checks_stops_when_its_call_is_cancelled(plugin: Conversation, namespace: str) -> None:
    call = begun(plugin, "wait")
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == cancelled(call)
    assert plugin.call("patient.quick", {"next": True}) == {"next": True}


def test_a_handler_may_answer_a_cancelled_call_in_its_own_way(plugin: Conversation, namespace: str) -> None:
    call = begun(plugin, "tidy")
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == {"jsonrpc": "2.0", "id": call, "result": {"stopped": True}}


def test_a_cancelled_stream_hears_of_it_at_its_own_yield(plugin: Conversation, namespace: str) -> None:
    call = begun(plugin, "stream")
    plugin.tell(f"{namespace}.cancel", {"id": call})

    while "id" not in (said := plugin.receive()):
        last = said["params"]["event"]["data"]
    assert (said, last) == (cancelled(call), {"closing": True})
    assert [line["message"] for line in plugin.end()[1]] == ["cleaned up"]


def test_a_call_that_still_waits_is_answered_at_once_and_never_run(plugin: Conversation, namespace: str) -> None:
    running = begun(plugin, "wait")
    waiting = plugin.ask("patient.quick")
    kept = plugin.ask("patient.quick", {"kept": True})
    plugin.tell(f"{namespace}.cancel", {"id": waiting})
    assert plugin.receive() == cancelled(waiting)

    plugin.tell(f"{namespace}.cancel", {"id": running})
    assert plugin.receive() == cancelled(running)
    assert plugin.receive() == {"jsonrpc": "2.0", "id": kept, "result": {"kept": True}}


def test_a_call_and_its_cancellation_that_arrive_together_cost_no_work(plugin: Conversation, namespace: str) -> None:
    call = '{"jsonrpc":"2.0","id":77,"method":"patient.quick"}\n'
    cancel = f'{{"jsonrpc":"2.0","method":"{namespace}.cancel","params":{{"id":77}}}}\n'
    plugin.send_bytes((call + cancel).encode())
    assert plugin.receive() == cancelled(77)


def test_a_handler_that_waits_for_the_host_learns_of_the_cancellation_with_the_answer(
    plugin: Conversation, namespace: str
) -> None:
    call = plugin.ask("patient.ask")
    question = plugin.receive()
    assert question["method"] == f"{namespace}.storage.query"
    plugin.tell(f"{namespace}.cancel", {"id": call})
    plugin.send({"jsonrpc": "2.0", "id": question["id"], "result": {"rows": [], "columns": []}})
    assert plugin.receive()["result"] == {"rows": [], "cancelled": True}


@pytest.mark.req("G-28", "python health response")
def test_a_ping_is_answered_while_a_handler_works_and_looks(plugin: Conversation, namespace: str) -> None:
    call = begun(plugin, "wait")
    ping = plugin.ask("ping")
    assert plugin.receive() == {"jsonrpc": "2.0", "id": ping, "result": {"status": "ok"}}
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == cancelled(call)


@pytest.mark.parametrize("params", [{"id": 99}, {"id": "1"}, {"id": None}, {"id": True}, {}, [1]], ids=str)
def test_a_cancellation_of_no_known_call_is_ignored(plugin: Conversation, namespace: str, params: Any) -> None:
    call = begun(plugin, "wait")
    plugin.tell(f"{namespace}.cancel", params)
    ping = plugin.ask("ping")  # read after it: by now the cancellation has been looked at
    assert plugin.receive()["id"] == ping
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == cancelled(call)


def test_a_handler_that_looks_ends_when_the_host_is_gone(plugin: Conversation) -> None:
    begun(plugin, "wait")
    assert plugin.process.stdout
    plugin.process.stdout.close()
    assert plugin.process.wait(30) == 0


def test_what_was_asked_before_the_pipe_was_closed_is_still_answered(plugin: Conversation) -> None:
    calls = [plugin.ask("patient.quick", {"turn": turn}) for turn in range(3)]
    assert plugin.process.stdin
    plugin.process.stdin.close()
    assert [plugin.receive()["id"] for _ in calls] == calls
    assert plugin.ended() == (0, [])
