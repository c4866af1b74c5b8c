"""The examples that the demo is about, in their cages: letters, a clock that breaks, and an MCP bundle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.places import EXAMPLES, run_inside

from fixtures.commands import Paddock

WAITS, FAILED = 4, 7


@pytest.fixture
def running(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home")


def installed(paddock: Paddock, name: str) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / name, "--yes")
    paddock.quickly("plugin", "enable", name)


def test_a_letter_waits_for_a_person_and_is_sent_exactly_as_they_saw_it(running: Paddock) -> None:
    installed(running, "outbox")
    letter = '{"to": "Ann", "subject": "Oats", "text": "Please bring some."}'

    held = running("call", "outbox.send", "-p", letter, "--json", code=WAITS)
    assert running("call", "outbox.letters", "-p", "{}").json == {"letters": []}
    running("approval", "approve", held.json["error"]["details"]["approval"], "--yes")

    sent = {"number": 1, "to": "Ann", "subject": "Oats", "text": "Please bring some."}
    assert running("call", "outbox.letters", "-p", '{"to": "Ann"}').json == {"letters": [sent]}
    assert running("call", "outbox.letters", "-p", '{"to": "Bob"}').json == {"letters": []}
    assert running("call", "outbox.empty", "-p", "{}").json == {"thrown_away": 1}


def test_the_clock_fails_in_all_three_ways(running: Paddock) -> None:
    installed(running, "broken-clock")
    assert ":" in running("call", "broken-clock.time", "-p", '{"city": "Tokyo"}').json["time"]

    assert "LookupError" in running("call", "broken-clock.time", "-p", '{"city": "Paris"}', code=FAILED).err
    assert "it ended with exit status 1" in running("call", "broken-clock.wind", "-p", '{"turns": 10}', code=FAILED).err
    gone = running("call", "broken-clock.time", "-p", '{"city": "Tokyo"}', code=FAILED).err
    assert "its last log line: the spring is broken" in gone


def test_the_bundle_answers_as_an_mcp_server(running: Paddock) -> None:
    installed(running, "mcp-units")

    answer = running("call", "mcp-units.convert", "-p", '{"value": 100, "from": "°C", "to": "°F"}').json
    assert answer["structuredContent"] == {"value": 212}
    refused = running("call", "mcp-units.convert", "-p", '{"value": 1, "from": "km", "to": "kg"}', code=FAILED)
    assert "km is a length, and kg is a weight" in refused.err


def test_the_bundle_waits_for_a_person_once_its_server_says_something_else(running: Paddock) -> None:
    installed(running, "mcp-units")
    asked = ("call", "mcp-units.convert", "-p", '{"value": 1, "from": "km", "to": "m"}')
    running(*asked)
    with running.local.open("a") as file:
        file.write("more_units = true\n")

    assert "it changed since it was accepted" in running(*asked, code=5).err


@pytest.mark.parametrize(
    ("value", "here", "there", "comes_to"),
    [(1, "mi", "m", 1609.344), (0, "K", "°C", -273.15), (-40, "°F", "°C", -40), (1, "lb", "kg", 0.45359237)],
)
def test_units(value: float, here: str, there: str, comes_to: float) -> None:
    program = "import json, sys; sys.path.insert(0, {!r}); from units import converted; {}"
    there_is = str(EXAMPLES / "mcp-units/server")
    asked = f"print(json.dumps(converted({value}, {here!r}, {there!r})))"
    assert run_inside("mcp-units", program.format(there_is, asked)) == pytest.approx(comes_to)
