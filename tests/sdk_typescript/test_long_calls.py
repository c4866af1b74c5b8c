"""Calls that take long, with the TypeScript SDK: what is told before the result, and what ends them early."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import Conversation
from tests.sdk_typescript.node import needs_node, program

pytestmark = needs_node

PATIENT = """
import { setTimeout as later } from "node:timers/promises";
import { Cancelled, createPlugin } from "SDK";

const plugin = createPlugin({ name: "patient", version: "1.0.0", namespace: "NAMESPACE", concurrency: 2,
  onShutdown: () => plugin.log.info("goodbye") });
const aMinute = 60_000; // a test that failed must not leave this running

plugin.tool("work", (_params, call) => {
  call.progress(1);
  call.progress(2, 3, "nearly");
  call.event({ type: "note", text: "ä" });
  return "done";
});
plugin.tool("wait", async (_params, call) => {
  call.progress(0);
  await later(aMinute, undefined, { signal: call.signal }).catch(() => call.signal.throwIfAborted());
});
plugin.tool("compute", async (_params, call) => {
  call.progress(0);
  for (const end = Date.now() + aMinute; Date.now() < end; ) await call.checkpoint();
});
plugin.tool("tidy", async (_params, call) => {
  call.progress(0);
  await new Promise((stop) => call.signal.addEventListener("abort", stop));
  return { stopped: true };
});
plugin.tool("stream", function* ({ count }) {
  for (let number = 0; number < count; number++) yield { number };
  return { count };
});
plugin.tool("endless", async function* () {
  try {
    for (const end = Date.now() + aMinute; Date.now() < end; ) yield { more: true };
  } catch (error) {
    if (error instanceof Cancelled) yield { closing: true };
    throw error;
  } finally {
    plugin.log.info("cleaned up");
  }
});
plugin.tool("broken", function* () {
  try {
    yield { sent: true };
    yield 1n;
  } finally {
    plugin.log.info("closed");
  }
});
plugin.tool("late", (_params, call) => {
  setTimeout(() => { try { call.progress(1); } catch (error) { plugin.log.info(error.message); } }, 1);
  return null;
});
plugin.tool("ask", async (_params, call) => {
  const { rows } = await plugin.storage.query("SELECT 1");
  return { rows, cancelled: call.signal.aborted };
});
plugin.start();
"""


@pytest.fixture(params=["paddock", "kaged"])
def namespace(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def plugin(tmp_path: Path, namespace: str) -> Generator[Conversation, None, None]:
    with program(tmp_path, PATIENT.replace("NAMESPACE", namespace)) as talk:
        talk.greet("patient", {})
        yield talk


def begun(plugin: Conversation, tool: str) -> int:
    """A call that is under way."""
    call = plugin.ask(f"patient.{tool}")
    assert plugin.receive()["params"]["id"] == call
    return call


def followed(plugin: Conversation, namespace: str, call: int) -> tuple[list[Any], Any]:
    """The events of a call in order, and its whole answer."""
    told: list[Any] = []
    while "id" not in (said := plugin.receive()):
        assert (said["method"], said["params"]["id"]) == (f"{namespace}.event", call)
        told.append(said["params"]["event"])
    assert said["id"] == call
    return told, said


def cancelled(call: int) -> Any:
    return {"jsonrpc": "2.0", "id": call, "error": {"code": -32000, "message": "cancelled"}}


def test_progress_and_events_name_their_call_and_come_before_its_result(plugin: Conversation, namespace: str) -> None:
    told, answer = followed(plugin, namespace, plugin.ask("patient.work"))

    assert told == [
        {"type": "progress", "progress": 1},
        {"type": "progress", "progress": 2, "total": 3, "message": "nearly"},
        {"type": "note", "text": "ä"},
    ]
    assert answer["result"] == "done"
    plugin.tell("patient.work")  # a notification: nobody waits for its events
    assert plugin.call("ping") == {"status": "ok"}


def test_what_a_handler_yields_is_sent_as_it_comes_and_what_it_returns_is_the_result(
    plugin: Conversation, namespace: str
) -> None:
    told, answer = followed(plugin, namespace, plugin.ask("patient.stream", {"count": 3}))
    assert told == [{"type": "data", "data": {"number": number}} for number in range(3)]
    assert answer["result"] == {"count": 3}


def test_a_stream_that_yields_what_cannot_be_sent_fails_alone_and_is_closed(
    plugin: Conversation, namespace: str
) -> None:
    told, answer = followed(plugin, namespace, plugin.ask("patient.broken"))
    assert told == [{"type": "data", "data": {"sent": True}}]
    assert answer["error"] == {"code": -32603, "message": "the plugin failed (TypeError)"}
    assert [line["message"] for line in plugin.end()[1] if line["level"] == "info"] == ["closed", "goodbye"]


def test_nothing_is_told_about_a_call_that_is_over(plugin: Conversation) -> None:
    assert plugin.call("patient.late") is None
    call = begun(plugin, "tidy")  # the next thing that is said is about this one
    log = plugin.process.stderr
    assert log and b"it sends no more events" in log.readline()
    assert call


@pytest.mark.parametrize("tool", ["wait", "compute"])
def test_a_handler_that_listens_stops_when_its_call_is_cancelled(
    plugin: Conversation, namespace: str, tool: str
) -> None:
    call = begun(plugin, tool)
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == cancelled(call)


def test_a_handler_may_answer_a_cancelled_call_in_its_own_way(plugin: Conversation, namespace: str) -> None:
    call = begun(plugin, "tidy")
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == {"jsonrpc": "2.0", "id": call, "result": {"stopped": True}}


def test_a_cancelled_stream_that_never_waits_hears_of_it_at_its_own_yield(plugin: Conversation, namespace: str) -> None:
    call = begun(plugin, "endless")
    plugin.tell(f"{namespace}.cancel", {"id": call})

    told, answer = followed(plugin, namespace, call)
    assert (told[-1]["data"], answer) == ({"closing": True}, cancelled(call))
    assert [line["message"] for line in plugin.end()[1]] == ["cleaned up", "goodbye"]


def test_a_call_that_still_waits_is_answered_at_once_and_never_run(plugin: Conversation, namespace: str) -> None:
    running = [begun(plugin, "wait"), begun(plugin, "wait")]
    waiting = plugin.ask("patient.work")
    plugin.tell(f"{namespace}.cancel", {"id": waiting})
    assert plugin.receive() == cancelled(waiting)
    for call in running:
        plugin.tell(f"{namespace}.cancel", {"id": call})
        assert plugin.receive() == cancelled(call)


def test_a_call_and_its_cancellation_that_arrive_together_cost_no_work(plugin: Conversation, namespace: str) -> None:
    call = '{"jsonrpc":"2.0","id":77,"method":"patient.work"}\n'
    cancel = f'{{"jsonrpc":"2.0","method":"{namespace}.cancel","params":{{"id":77}}}}\n'
    plugin.send_bytes((call + cancel).encode())
    assert plugin.receive() == cancelled(77)


@pytest.mark.parametrize("params", [{"id": 99}, {"id": "1"}, {"id": None}, {"id": True}, {}, [1]], ids=str)
def test_a_cancellation_of_no_known_call_is_ignored(plugin: Conversation, namespace: str, params: Any) -> None:
    call = begun(plugin, "wait")
    plugin.tell(f"{namespace}.cancel", params)
    assert plugin.call("ping") == {"status": "ok"}
    plugin.tell(f"{namespace}.cancel", {"id": call})
    assert plugin.receive() == cancelled(call)


def test_a_handler_that_waits_for_the_host_learns_of_the_cancellation_with_the_answer(
    plugin: Conversation, namespace: str
) -> None:
    call = plugin.ask("patient.ask")
    question = plugin.receive()
    assert question["method"] == f"{namespace}.storage.query"
    plugin.tell(f"{namespace}.cancel", {"id": call})
    plugin.send({"jsonrpc": "2.0", "id": question["id"], "result": {"rows": [], "columns": []}})
    assert plugin.receive()["result"] == {"rows": [], "cancelled": True}


@pytest.mark.req("G-28", "typescript health response")
@pytest.mark.parametrize("tool", ["wait", "compute"])
def test_a_ping_is_answered_while_a_handler_works(plugin: Conversation, tool: str) -> None:
    begun(plugin, tool)
    assert plugin.call("ping") == {"status": "ok"}


def test_a_ping_is_answered_while_a_stream_never_waits(plugin: Conversation) -> None:
    begun(plugin, "endless")
    ping = plugin.ask("ping")
    while "id" not in (said := plugin.receive()):
        assert said["params"]["event"]["type"] == "data"
    assert said == {"jsonrpc": "2.0", "id": ping, "result": {"status": "ok"}}


def test_shutdown_stops_what_is_still_under_way_and_answers_it(plugin: Conversation) -> None:
    call = begun(plugin, "wait")
    plugin.tell("shutdown")
    assert plugin.receive() == cancelled(call)
    code, log = plugin.ended()
    assert (code, log[-1]["message"]) == (0, "goodbye")


def test_a_plugin_at_work_ends_when_the_host_reads_no_more(plugin: Conversation) -> None:
    begun(plugin, "endless")
    assert plugin.process.stdout
    plugin.process.stdout.close()
    assert plugin.process.wait(30) == 0
