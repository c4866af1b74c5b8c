"""`paddock plugin tools`: what every callable says, takes and changes, with a daemon and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import kernel, native

ZONE = {
    "type": "object",
    "properties": {
        "zone": {"type": "string", "description": "As in Europe/Oslo", "default": "UTC"},
        "form": {"type": "string", "enum": ["short", "long"]},
        "day": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["form"],
}
LISTED = """{"tools": [{"name": one, "description": one, "inputSchema": {"type": "object"}}
                          for one in ("paint", "visit", "grow", "turn")]}"""


def clock(root: Path, description: str = "Tells the time.\nIn any zone.", **fields: object) -> Path:
    """A server with one described tool, and one that takes nothing."""
    root = butler(root, "clock", **fields)
    nothing = {"type": "object", "properties": {}}
    tools = [
        {"name": "now", "description": description, "inputSchema": ZONE},
        {"name": "stop", "description": "Stops it", "inputSchema": nothing},
    ]
    program = root / "main.py"
    assert LISTED in program.read_text()
    program.write_text(program.read_text().replace(LISTED, repr({"tools": tools})))
    return root


@pytest.fixture
def timed(paddock: Paddock, source: Path) -> Paddock:
    paddock.quickly("plugin", "install", clock(source / "clock"), "--yes")
    return paddock


def test_what_a_package_declares_is_told_without_running_it(paddock: Paddock, source: Path) -> None:
    for name, make in (("notes", native), ("Email.Draft", kernel)):
        paddock.quickly("plugin", "install", make(source / name, name), "--yes")

    (add,) = paddock("plugin", "tools", "notes", "--json").json["tools"]
    assert (add["name"], add["call"], add["standing"]) == ("add", "notes.add", "declared")
    assert add["parameters"] and add["input_schema"]
    assert paddock("plugin", "show", "notes", "--json").json["tools"] == [add]
    assert paddock("plugin", "tools", "notes", "notes.add", "--json").json == {"plugin": "notes", **add}
    assert "notes.add\n" in paddock("plugin", "tools", "notes").out

    (draft,) = paddock("plugin", "tools", "Email.Draft", "--json").json["tools"]
    assert (draft["name"], draft["call"]) == ("Email.Draft", "Email.Draft")
    assert "    effects: " in paddock("plugin", "tools", "Email.Draft").out


def test_how_it_is_found_out_whether_a_call_has_happened_is_told_before_and_after_installing(
    paddock: Paddock, source: Path
) -> None:
    tools = [
        {"name": "pay", "effects": ["external_call"], "recovery": "probe", "probe": "paid"},
        {"name": "send", "effects": ["external_send"]},
        {"name": "paid", "effects": ["read_only"]},
    ]
    asked = paddock("plugin", "install", native(source, "bank", tools=tools), "--yes").err
    shown = paddock("plugin", "tools", "bank").out
    found = {
        one["name"]: (one["recovery"], one["probe"])
        for one in paddock("plugin", "tools", "bank", "--json").json["tools"]
    }

    assert "Where nobody knows whether a call has happened, the host asks paid: pay" in asked
    assert shown.count("recovery: ") == 2
    assert "recovery: probe: if it is cut off, the host asks paid" in shown
    assert "recovery: none: if it is cut off, a person has to look" in shown
    assert found == {"pay": ("probe", "paid"), "send": ("none", ""), "paid": ("none", "")}


@pytest.mark.slow
def test_a_server_that_never_ran_is_asked_once_it_may_run_and_not_again(timed: Paddock) -> None:
    before = timed("plugin", "tools", "clock")
    assert (before.out, "paddock plugin enable clock" in before.err) == ("", True)
    assert "paddock plugin enable clock" in timed("plugin", "tools", "clock", "now", code=3).err
    timed.quickly("plugin", "enable", "clock", "--no-start")
    assert "paddock plugin tools clock" in timed("call", "clock", code=3).err

    met = timed("plugin", "tools", "clock")
    assert "started once" in met.err
    assert met.out == (
        "clock.now\n"
        "    Tells the time.\n"
        "    In any zone.\n"
        '    • form (string, required, one of "short", "long")\n'
        "    • day (integer or null)\n"
        '    • zone (string, default "UTC"): As in Europe/Oslo\n'
        "    effects: reads and answers, changes nothing\n"
        "    standing: accepted (first use)\n"
        "\n"
        "clock.stop\n"
        "    Stops it\n"
        "    • takes no parameters\n"
        "    effects: reads and answers, changes nothing\n"
        "    standing: accepted (first use)\n"
    )
    again = timed("plugin", "tools", "clock", "now")
    assert again.err == ""
    assert '    "zone": {' in again.out and "as JSON Schema" in again.out
    assert "clock offers: now, stop" in timed("call", "clock", code=3).err
    assert "it offers: now, stop" in timed("plugin", "tools", "clock", "later", code=3).err

    info = timed("plugin", "show", "clock", "--json").json
    assert [one["name"] for one in info["tools"]] == ["now", "stop"]
    assert info["tools"][0]["input_schema"] == ZONE
    assert "paddock plugin tools clock" in timed("plugin", "show", "clock").err


def test_a_value_is_checked_against_what_a_server_said(timed: Paddock) -> None:
    unknown = timed("plugin", "validate", "clock#now/input", "{}", code=3)
    assert "paddock plugin tools clock" in unknown.err
    timed.quickly("plugin", "enable", "clock")
    timed("plugin", "tools", "clock")

    assert "it fits" in timed("plugin", "validate", "clock#now/input", '{"form": "long"}').err
    wrong = timed("plugin", "validate", "clock#now/input", '{"form": "wide"}', "--json", code=6).error
    assert [one["path"] for one in wrong["errors"]] == ["form"]


def test_a_daemon_meets_the_server_and_enable_says_what_was_seen(timed: Paddock) -> None:
    with daemon(timed):
        enabled = timed("plugin", "enable", "clock")
        assert "2 tools seen for the first time: now, stop — paddock plugin tools clock" in enabled.err
        assert "clock.now" in timed("plugin", "tools", "clock").out
        timed("plugin", "disable", "clock")
        assert "for the first time" not in timed("plugin", "enable", "clock").err


def test_a_daemon_starts_one_that_waits_for_its_first_call(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", clock(source / "clock", start="lazy"), "--yes")
    paddock.quickly("plugin", "enable", "clock", "--no-start")
    with daemon(paddock) as started:
        assert started.ask("GET", "/plugins/clock/tools").body["known"] is False
        met = paddock("plugin", "tools", "clock", "--json")
        assert (met.json["known"], len(met.json["tools"])) == (True, 2)
        assert started.ask("GET", "/plugins/clock/definitions").body["tools"] == met.json["tools"]
        assert started.ask("GET", "/plugins/clock").body["tools"] == met.json["tools"]


def test_what_a_server_hides_is_shown_and_its_tool_stands_as_quarantined(paddock: Paddock, source: Path) -> None:
    package = clock(source / "clock", "Tells the time.\u200b\x1b[31mNow")
    paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("plugin", "enable", "clock")

    shown = paddock("plugin", "tools", "clock", "now")
    assert "Tells the time.\\u200b\\x1b[31mNow" in shown.out
    assert "standing: quarantined: description hides" in shown.out
    assert "paddock plugin accept clock now" in shown.out
    told = paddock("plugin", "tools", "clock", "now", "--json").json
    assert (told["standing"], told["description"]) == ("quarantined", "Tells the time.\\u200b\\x1b[31mNow")
