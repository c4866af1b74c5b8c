"""What a handler tells about its call before the result."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import Conversation, conversation

TALKATIVE = """
from paddock_sdk import Plugin

plugin = Plugin("talkative", "1.0.0", namespace="NAMESPACE")

@plugin.tool
def work(params, context):
    plugin.progress(1)
    plugin.progress(2, 3, "nearly")
    plugin.event({"type": "note", "text": "ä"})
    return "done"

@plugin.tool
def stream(params, context):
    for number in range(params["count"]):
        yield {"number": number}
    return {"count": params["count"]}

@plugin.tool
def broken(params, context):
    try:
        yield {"sent": True}
        yield params["what"] and {1}
    finally:
        plugin.log.info("closed")

@plugin.method("events.early")
def early(params, context):
    return early_error

@plugin.on_config
def configured(config):
    plugin.progress(1, 1)

try:
    plugin.progress(0)
    early_error = None
except RuntimeError as error:
    early_error = str(error)

plugin.run()
"""


@pytest.fixture(params=["paddock", "kaged"])
def namespace(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def plugin(tmp_path: Path, namespace: str) -> Generator[Conversation, None, None]:
    (tmp_path / "talkative.py").write_text(TALKATIVE.replace("NAMESPACE", namespace))
    with conversation(["python3", "talkative.py"], tmp_path) as talk:
        talk.greet("talkative")
        yield talk


def events(plugin: Conversation, namespace: str, request_id: int) -> tuple[list[Any], Any]:
    """The events of a call in order, and its whole answer."""
    told: list[Any] = []
    while "id" not in (said := plugin.receive()):
        assert (said["method"], said["params"]["id"]) == (f"{namespace}.event", request_id)
        told.append(said["params"]["event"])
    assert said["id"] == request_id
    return told, said


def test_progress_and_events_name_their_call_and_come_before_its_result(plugin: Conversation, namespace: str) -> None:
    told, answer = events(plugin, namespace, plugin.ask("talkative.work"))

    assert told == [
        {"type": "progress", "progress": 1},
        {"type": "progress", "progress": 2, "total": 3, "message": "nearly"},
        {"type": "note", "text": "ä"},
    ]
    assert answer["result"] == "done"


def test_what_a_handler_yields_is_sent_as_it_comes_and_what_it_returns_is_the_result(
    plugin: Conversation, namespace: str
) -> None:
    told, answer = events(plugin, namespace, plugin.ask("talkative.stream", {"count": 3}))
    assert told == [{"type": "data", "data": {"number": number}} for number in range(3)]
    assert answer["result"] == {"count": 3}

    assert events(plugin, namespace, plugin.ask("talkative.stream", {"count": 0}))[0] == []


def test_a_stream_that_yields_what_cannot_be_sent_fails_alone_and_is_closed(
    plugin: Conversation, namespace: str
) -> None:
    told, answer = events(plugin, namespace, plugin.ask("talkative.broken", {"what": 1}))
    assert told == [{"type": "data", "data": {"sent": True}}]
    assert answer["error"] == {"code": -32603, "message": "the plugin failed (TypeError)"}

    assert plugin.call("ping") == {"status": "ok"}
    plugin.tell("talkative.work")  # a notification: nobody waits for its events
    plugin.tell("talkative.stream", {"count": 2})
    assert plugin.call("ping") == {"status": "ok"}
    log = plugin.end()[1]
    assert [line["message"] for line in log if line["level"] == "info"] == ["closed"]


def test_nothing_is_told_about_a_request_of_the_hosts_own(plugin: Conversation) -> None:
    assert plugin.call("config.update", {"config": {}}) == {"status": "ok"}


def test_an_event_where_there_is_no_host_goes_nowhere(plugin: Conversation) -> None:
    assert plugin.call("events.early") is None


def test_an_event_of_no_call_is_a_mistake_and_a_last_handler_that_fails_shows_in_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        'from paddock_sdk import Plugin\nplugin = Plugin("p", "1")\n'
        'plugin.on_shutdown(lambda: plugin.event({"type": "late"}))\nplugin.run()\n'
    )
    with conversation(["python3", "p.py"], tmp_path) as talk:
        talk.greet("p")
        talk.tell("shutdown")
        code, log = talk.ended()
    assert code == 1
    assert "belongs to a call" in log[-1]["traceback"]


@pytest.mark.req("G-28", "python logging")
@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", 2), ("info", 1), ("INFO", 1), ("warning", 1), ("error", 0), ("ERROR", 0), ("odd", 1), ("", 1)],
)
def test_the_host_says_how_much_is_logged(tmp_path: Path, namespace: str, level: str, written: int) -> None:
    (tmp_path / "p.py").write_text(
        f'from paddock_sdk import Plugin\nplugin = Plugin("p", "1", namespace="{namespace}")\n'
        'plugin.log.debug("d")\nplugin.log.warning("w")\nplugin.run()\n'
    )
    with conversation(["python3", "p.py"], tmp_path, {f"{namespace.upper()}_LOG_LEVEL": level}) as talk:
        talk.greet("p")
        talk.tell("system.rate_limited", {"limit_per_second": 100})
        log = talk.end()[1]
    assert len([line for line in log if line["message"] in ("d", "w")]) == written
    dropped = [line["limit"] for line in log if "drops notifications" in line["message"]]
    assert dropped == ([] if level.lower() == "error" else [100])
