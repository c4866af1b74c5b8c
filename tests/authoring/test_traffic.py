"""The wire in words: which call a line belongs to, what came of it, and nothing that nobody should read."""

from __future__ import annotations

import json
from typing import Any

from paddock.authoring.traffic import TrafficDecoder, TrafficMessage
from paddock.core.clock import SystemClock


class Slow(SystemClock):
    """Every look at the clock takes ten milliseconds."""

    def __init__(self) -> None:
        self.now_at = 0.0

    def monotonic(self) -> float:
        self.now_at += 0.01
        return self.now_at


def listened(*lines: tuple[str, Any]) -> list[TrafficMessage]:
    told: list[TrafficMessage] = []
    traffic = TrafficDecoder("greeter", frozenset({"token"}), told.append, Slow())
    for direction, message in lines:
        frame = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        (traffic.sent if direction == "→" else traffic.received)(frame)
    return told


def test_a_call_and_its_answer_bear_the_name_of_the_tool_and_the_time_between_them() -> None:
    call, event, result = listened(
        ("→", {"id": 1, "method": "greeter.greet", "params": {"name": "Ann", "_context": {}, "_call": "call-1"}}),
        ("←", {"method": "paddock.event", "params": {"id": 1, "event": {"type": "progress"}}}),
        ("←", {"id": 1, "result": {"text": "Hi"}}),
    )

    assert call == TrafficMessage(True, "call", "greet", {"name": "Ann"})
    assert event == TrafficMessage(False, "event", "greet", {"type": "progress"})
    assert (result.kind, result.name, result.value, result.milliseconds) == ("result", "greet", {"text": "Hi"}, 10.0)


def test_workers_and_servers_calls_are_shown_alike() -> None:
    worker, server = listened(
        ("→", {"id": 1, "method": "worker.call", "params": {"callable": "greet", "payload": {"name": "Ann"}}}),
        ("→", {"id": 2, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": "Ann"}}}),
    )

    assert worker == server == TrafficMessage(True, "call", "greet", {"name": "Ann"})


def test_what_the_plugin_asks_and_what_it_is_answered_belong_together() -> None:
    asks, refuses = listened(
        ("←", {"id": "q", "method": "paddock.storage.exec", "params": {"sql": "DROP", "_call": "x"}}),
        ("→", {"id": "q", "error": {"code": -32003, "message": "no"}}),
    )

    assert (asks.kind, asks.name, asks.value) == ("asks", "storage.exec", {"sql": "DROP"})
    assert (refuses.kind, refuses.name, refuses.value["code"]) == ("refuses", "storage.exec", -32003)


def test_secrets_of_the_settings_are_masked_and_noise_is_called_noise() -> None:
    config, noise = listened(
        ("→", {"id": 1, "method": "config.update", "params": {"config": {"token": "t0p", "size": 3}}}),
        ("←", b"hello world"),
    )

    assert config.value == {"config": {"token": "•••", "size": 3}}
    assert (noise.kind, noise.value) == ("noise", "hello world")
