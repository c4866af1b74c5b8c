"""Calls to a running plugin: what it gets, what comes back, how many at once, and what it may say meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.runtime.stage import Stage, open_stage, patiently

from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext
from paddock.core.error_formats import json_rpc_error
from paddock.core.errors import Busy, CallerError, HostError, NotFound, PaddockError, PluginError, Unavailable
from paddock.core.events.contracts import PluginStopped
from paddock.core.events.plugin_runtime import (
    PluginCrashed,
    PluginMethodCalled,
    PluginMethodReturned,
    PluginNotification,
    PluginNotificationFlood,
)
from paddock.core.ids import AgentPath, ProjectId, SessionId
from paddock.runtime.lifecycle import PluginState

ECHO = "hello()\nserve(do_it=lambda request: {'got': request})"


@pytest.mark.req("G-29", "plugin.method_called")
@pytest.mark.req("G-29", "plugin.method_returned")
@pytest.mark.req("G-31", "method happy path")
async def test_a_declared_method_is_called_with_its_parameters_and_answers(stage: Stage) -> None:
    actor = stage.actor(ECHO)
    got = (await actor.call("do.it", filter="web"))["got"]
    assert got["method"] == "do.it"
    assert got["params"]["filter"] == "web"
    called = await stage.audience.event(PluginMethodCalled)
    returned = await stage.audience.event(PluginMethodReturned)
    assert (called.name, called.method, called.operator_id, called.project_id) == ("actor", "do.it", "tester", None)
    assert returned.request_id == called.request_id
    assert returned.success
    assert returned.duration_ms > 0


@pytest.mark.req("G-07")
@pytest.mark.req("G-31", "context passing")
async def test_a_call_of_an_agent_names_project_agent_and_session_and_another_none_of_them(stage: Stage) -> None:
    actor = stage.actor(ECHO)
    run = stage.context(project=ProjectId("music"), agent_path=AgentPath("primary"), session=SessionId("ses_1"))
    assert (await actor.call("do.it", run))["got"]["params"]["_context"] == {
        "operator_id": "tester",
        "project_id": "music",
        "agent_path": "primary",
        "session_id": "ses_1",
        "request_id": run.request,
    }
    alone = (await actor.call("do.it"))["got"]["params"]["_context"]
    assert [alone[name] for name in ("project_id", "agent_path", "session_id")] == [None, None, None]
    with pytest.raises(HostError, match="must name its"):
        stage.context(project=ProjectId("music"))


@pytest.mark.req("G-15", "-32601")
@pytest.mark.req("G-15", "-32602")
@pytest.mark.req("G-15", "-32603")
@pytest.mark.req("G-15", "-32000")
@pytest.mark.req("G-15", "-32001")
@pytest.mark.req("G-15", "-32003")
@pytest.mark.req("G-15", "-32005")
@pytest.mark.req("G-15", "-32006")
@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (-32601, NotFound, "method_not_found"),
        (-32602, CallerError, "invalid_params"),
        (-32603, PluginError, "plugin_error"),
        (-32000, PluginError, "plugin_error"),
        (-32001, PluginError, "capability_denied"),
        (-32003, PluginError, "storage_access_denied"),
        (-32005, Busy, "resource_busy"),
        (-32006, CallerError, "not_applicable"),
        (-32042, PluginError, "plugin_error"),
    ],
)
async def test_an_error_answer_reaches_the_caller_as_an_error_of_the_hosts_own(
    stage: Stage, number: int, kind: type[PaddockError], code: str
) -> None:
    actor = stage.actor(f"hello()\nserve(do_it=lambda request: refuse(request, {number}, 'no\\x1b[31m way'))")
    with pytest.raises(kind) as refused:
        await actor.call("do.it")
    assert refused.value.error_code == code
    assert refused.value.message.removeprefix("actor failed: ") == r"no\x1b[31m way"
    assert refused.value.details["rpc_code"] == number
    assert not (await stage.audience.event(PluginMethodReturned)).success


@pytest.mark.req("G-02", "counted ids")
@pytest.mark.req("G-31", "concurrent calls")
async def test_ten_calls_and_more_are_under_way_at_once_and_each_gets_its_own_answer(stage: Stage) -> None:
    # Holds all twenty and answers them in reverse.
    actor = stage.actor(
        """
hello()
held = []
def hold(request):
    held.append(request)
    if len(held) == 20:
        while held:
            request = held.pop()
            answer(request, {"number": request["params"]["number"]})
serve(do_it=hold)
"""
    )
    await actor.settled()
    answers = await asyncio.gather(*(actor.call("do.it", number=number) for number in range(20)))
    assert [answer["number"] for answer in answers] == list(range(20))


async def test_more_calls_than_a_plugin_may_have_under_way_are_refused_as_busy(stage: Stage) -> None:
    actor = stage.actor("hello()\nserve(do_it=lambda request: None)")
    await actor.settled()
    waiting = [asyncio.ensure_future(actor.call("do.it")) for _ in range(64)]
    await stage.audience.event(PluginMethodCalled, 64)
    with pytest.raises(Busy) as refused:
        await actor.call("do.it")
    assert json_rpc_error(refused.value)["code"] == -32005
    for call in waiting:
        call.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_plugin_that_crashes_in_a_call_fails_that_call_and_is_started_again(stage: Stage) -> None:
    actor = stage.actor("hello()\nserve(do_it=lambda request: os._exit(3))")
    with pytest.raises(Unavailable, match="ended before it answered") as failed:
        await actor.call("do.it")
    assert failed.value.retryable
    assert (await stage.audience.event(PluginCrashed)).exit_code == 3
    assert (await actor.until(PluginState.RUNNING)).failures == 1


@pytest.mark.req("O-21")
async def test_twelve_plugins_run_and_answer_at_the_same_time(stage: Stage) -> None:
    actors = [stage.actor(ECHO, f"actor-{number}") for number in range(12)]
    answers = await asyncio.gather(*(actor.call("do.it", number=n) for n, actor in enumerate(actors)))
    assert [answer["got"]["params"]["number"] for answer in answers] == list(range(12))
    assert len({actor.status.pid for actor in actors}) == 12


@pytest.mark.req("G-02", "silent notifications")
@pytest.mark.req("G-08", "logged and forwarded")
@pytest.mark.req("G-29", "plugin.notification")
async def test_a_notification_is_recorded_and_passed_on(stage: Stage) -> None:
    stage.actor(
        'hello(); send({"jsonrpc": "2.0", "method": "catalog.updated", "params": {"entries_added": 3}}); serve()'
    )
    event = await stage.audience.event(PluginNotification)
    assert (event.name, event.notification_type) == ("actor", "catalog.updated")
    assert stage.audience.notifications == [("catalog.updated", {"entries_added": 3})]


@pytest.mark.req("G-08", "a flood is dropped and the plugin told")
@pytest.mark.req("G-29", "plugin.notification_flood")
async def test_a_flood_of_notifications_is_dropped_and_the_plugin_told(stage: Stage) -> None:
    actor = stage.actor(
        """
hello()
told = []
def flood(request):
    for number in range(1000):
        send({"jsonrpc": "2.0", "method": "catalog.updated", "params": {"number": number}})
    return {}
serve(do_it=flood, system_rate_limited=lambda request: told.append(request["params"]),
      ask_told=lambda request: {"told": told})
""",
        methods=[{"name": name, "effects": ["read_only"]} for name in ("do.it", "ask.told")],
    )
    await actor.call("do.it")
    flood = await stage.audience.event(PluginNotificationFlood)
    assert flood.rate > 100
    # At most a hundred a second, and the thousand may have crossed into another second or two.
    assert 100 <= len(stage.audience.notifications) < 1000
    assert (await actor.call("ask.told"))["told"][0] == {"limit_per_second": 100}
    assert actor.status.state is PluginState.RUNNING


EVENTFUL = """
hello(features=["events", "call_tokens", "cancel"])
def work(request):
    for number in (1, 2, 3):
        send({"jsonrpc": "2.0", "method": "paddock.event",
              "params": {"id": request["id"], "event": {"type": "progress", "progress": number, "total": 3}}})
    send({"jsonrpc": "2.0", "method": "paddock.event", "params": {"id": 999, "event": {"type": "progress"}}})
    send({"jsonrpc": "2.0", "method": "paddock.event", "params": {"id": request["id"], "event": "not an object"}})
    return {"done": True}
serve(do_it=work)
"""


async def test_events_of_a_call_reach_whoever_made_it_and_nobody_else(stage: Stage) -> None:
    actor = stage.actor(EVENTFUL)
    heard: list[Mapping[str, Any]] = []
    result = await patiently(
        stage.supervisor.call(actor.key, actor.spec("do.it"), {}, stage.context(), on_event=heard.append)
    )
    assert result == {"done": True}
    assert heard == [{"type": "progress", "progress": number, "total": 3} for number in (1, 2, 3)]
    assert actor.status.features == ("call_tokens", "cancel", "events")


async def test_events_of_a_plugin_that_did_not_announce_them_are_ordinary_notifications(stage: Stage) -> None:
    actor = stage.actor(EVENTFUL.replace('"events", ', ""))
    heard: list[Mapping[str, Any]] = []
    await patiently(stage.supervisor.call(actor.key, actor.spec("do.it"), {}, stage.context(), on_event=heard.append))
    assert heard == []
    assert len(stage.audience.notifications) == 5


class Butler:
    """A door that remembers who asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[CallContext | None, str, Mapping[str, Any]]] = []

    async def answer(self, asking: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append((asking.call, method, params))
        return {"served": method}


ASKING = """
hello(features=["call_tokens"])
def ask(request):
    token = {"_call": request["params"]["_call"]} if request["params"].get("echo") else {}
    if request["params"].get("made_up"):
        token = {"_call": "call-12345"}
    send({"jsonrpc": "2.0", "id": 1, "method": "paddock.storage.query", "params": {"sql": "SELECT 1", **token}})
    return {"answer": read()}
serve(do_it=ask)
"""


@pytest.mark.req("G-04", "to the host")
async def test_a_plugin_that_echoes_the_call_token_asks_the_host_for_that_call_and_else_for_itself(
    tmp_path: Any,
) -> None:
    butler = Butler()
    async with open_stage(tmp_path, answer_request=butler.answer) as stage:
        actor = stage.actor(ASKING)
        context = stage.context()
        told = await actor.call("do.it", context, echo=True)
        assert told["answer"] == {"jsonrpc": "2.0", "id": 1, "result": {"served": "paddock.storage.query"}}
        await actor.call("do.it")
        refused = await actor.call("do.it", made_up=True)
        assert refused["answer"]["error"]["code"] == -32601
        assert butler.asked == [
            (context, "paddock.storage.query", {"sql": "SELECT 1"}),
            (None, "paddock.storage.query", {"sql": "SELECT 1"}),
        ]


@pytest.mark.req("G-04", "to the host")
async def test_a_method_that_the_host_does_not_serve_is_not_found(stage: Stage) -> None:
    actor = stage.actor(ASKING)
    refused = await actor.call("do.it")
    assert refused["answer"]["error"]["code"] == -32601


@pytest.mark.req("G-04", "to the plugin")
@pytest.mark.req("G-15", "-32004")
async def test_a_running_plugin_is_told_of_new_configuration_and_of_projects_and_may_refuse(stage: Stage) -> None:
    actor = stage.actor(
        """
hello()
told = []
def note(request):
    if request["params"].get("config", {}).get("colour") == "ugly":
        return refuse(request, -32004, "not that colour")
    told.append([request["method"], request["params"]])
    return {"status": "ok"}
serve(config_update=note, projects_activated=note, projects_deactivated=note, do_it=lambda request: {"told": told})
""",
        config_schema={"type": "object"},
    )
    await actor.settled()
    await stage.supervisor.configure(actor.key, {"colour": "green"})
    await stage.supervisor.activate_project(actor.key, "music", {"depth": 3})
    await stage.supervisor.deactivate_project(actor.key, "music")
    with pytest.raises(PluginError, match="not that colour") as refused:
        await stage.supervisor.configure(actor.key, {"colour": "ugly"})
    assert refused.value.error_code == "config_invalid"
    assert (await actor.call("do.it"))["told"] == [
        ["config.update", {"config": {"colour": "green"}}],
        ["projects.activated", {"project": "music", "config": {"depth": 3}}],
        ["projects.deactivated", {"project": "music"}],
    ]


async def test_a_lazy_plugin_starts_at_its_first_call_and_stops_when_it_has_none_for_a_while(tmp_path: Any) -> None:
    async with open_stage(tmp_path, idle_stop=0.2) as stage:
        lazy, eager = stage.actor(ECHO, "lazy", lazy=True, start=False), stage.actor(ECHO, "eager")
        assert lazy.status.state is PluginState.DISABLED
        await lazy.call("do.it")
        await eager.call("do.it")
        assert (await lazy.until(PluginState.STOPPED)).pid is None
        assert eager.status.state is PluginState.RUNNING
        await lazy.call("do.it")
        assert len(stage.audience.of(PluginStopped)) >= 1
