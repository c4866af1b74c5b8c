"""slow-count: calls that take long, with the test in the host's place."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import yaml
from tests.examples.places import EXAMPLES, schema_errors
from tests.sdk.conversation import Conversation, conversation

ROOT = EXAMPLES / "slow-count"
MANIFEST = yaml.safe_load((ROOT / "paddock.yaml").read_text())
FOREVER = {"to": 1000, "pause_ms": 20}


@pytest.fixture
def plugin() -> Generator[Conversation, None, None]:
    with conversation(MANIFEST["runtime"]["command"], ROOT) as talk:
        talk.greet("slow-count", {})
        yield talk


def followed(plugin: Conversation, request_id: int) -> tuple[list[Any], Any]:
    """The events of a call, and its answer."""
    told: list[Any] = []
    while "id" not in (said := plugin.receive()):
        assert said["params"]["id"] == request_id
        told.append(said["params"]["event"])
    return told, said


def test_counting_tells_how_far_it_is(plugin: Conversation) -> None:
    told, answer = followed(plugin, plugin.ask("slow-count.count", {"to": 3, "pause_ms": 0}))

    assert told == [
        {"type": "progress", "progress": number, "total": 3, "message": f"counted to {number}"} for number in (1, 2, 3)
    ]
    assert answer["result"] == {"counted": 3}
    assert schema_errors(MANIFEST["tools"][0]["output_schema"], answer["result"]) == []


def test_squares_come_one_by_one_and_their_sum_at_the_end(plugin: Conversation) -> None:
    told, answer = followed(plugin, plugin.ask("slow-count.squares", {"to": 3, "pause_ms": 0}))

    assert [event["data"]["square"] for event in told] == [1, 4, 9]
    assert answer["result"] == {"sum": 14}
    assert schema_errors(MANIFEST["tools"][1]["output_schema"], answer["result"]) == []


@pytest.mark.parametrize("tool", ["count", "squares"])
def test_a_call_that_nobody_wants_any_more_stops_long_before_its_end(plugin: Conversation, tool: str) -> None:
    call = plugin.ask(f"slow-count.{tool}", FOREVER)
    assert plugin.receive()["params"]["id"] == call
    plugin.tell("paddock.cancel", {"id": call})

    told, answer = followed(plugin, call)
    assert answer["error"] == {"code": -32000, "message": "cancelled"}
    assert len(told) < 500
    notes = [(line["message"], line["sum_so_far"] > 0) for line in plugin.end()[1]]
    assert notes == ([("nobody wants the rest", True)] if tool == "squares" else [])


def test_wrong_numbers_are_refused_with_a_sentence(plugin: Conversation) -> None:
    for params in ({}, {"to": 0}, {"to": "3"}, {"to": 2000}, {"to": 1, "pause_ms": -1}, {"to": 1, "pause_ms": 1.5}):
        for tool in ("count", "squares"):
            assert plugin.error(f"slow-count.{tool}", params)["code"] == -32602
