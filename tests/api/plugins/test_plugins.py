"""Looking at plugins and switching them, through a real daemon."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, again_and_again, daemon, eventually
from fixtures.parrot import parrot


def test_the_list_of_plugins_says_how_each_process_is_doing(served: Daemon) -> None:
    answer = served.ask("GET", "/plugins")

    assert answer.status == 200
    (listed,) = answer.body["plugins"]
    assert (listed["name"], listed["state"], listed["runtime"]["state"]) == ("parrot", "enabled", "running")
    assert Path(f"/proc/{listed['runtime']['pid']}").exists()


def test_one_plugin_is_shown_with_everything_about_it(served: Daemon) -> None:
    shown = served.ask("GET", "/plugins/parrot").body

    assert shown["capabilities"] == ["net:[]"]
    assert "say" in shown["callables"]
    assert shown["runtime"]["features"] == ["call_tokens", "cancel", "events"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/plugins/nobody"),
        ("POST", "/plugins/nobody/enable"),
        ("POST", "/plugins/nobody/disable"),
        ("GET", "/plugins/nobody/logs"),
        ("GET", "/plugins/nobody/logs?follow=1"),
        ("GET", "/plugins/nobody/notifications"),
    ],
)
def test_a_plugin_that_nobody_installed_is_not_found(served: Daemon, method: str, path: str) -> None:
    answer = served.ask(method, path)

    assert (answer.status, answer.body["code"]) == (404, "plugin.not_found")


@pytest.mark.req("G-01", "stderr is the log")
def test_what_a_plugin_logs_can_be_read_and_followed(served: Daemon) -> None:
    note(served, "first")
    with served.following("/plugins/parrot/logs?follow=1&lines=1") as events:
        before = next(events)
        with again_and_again(lambda: note(served, "second")):
            followed = next(one for one in events if "second" in one["data"]["line"])

    assert "first" in before["data"]["line"]
    assert before["event"] == followed["event"] == "line"
    kept = [one["line"] for one in served.ask("GET", "/plugins/parrot/logs?lines=500").body["lines"]]
    assert any("first" in line for line in kept) and any("second" in line for line in kept)
    assert len(served.ask("GET", "/plugins/parrot/logs?lines=1").body["lines"]) == 1


@pytest.mark.req("G-08", "logged and forwarded")
def test_notifications_reach_whoever_follows_them(served: Daemon) -> None:
    with served.following("/plugins/parrot/notifications") as events:
        assert next(events)["event"] == "following"  # from here on nothing is missed
        note(served, "hello")
        told = next(events)

    assert told["event"] == "notification"
    assert told["data"] == {"plugin": "parrot", "notification": "parrot.squawk", "params": {"text": "hello"}}


def note(served: Daemon, text: str) -> None:
    assert served.ask("POST", "/plugins/parrot/call/note", {"text": text}).status == 200


@pytest.mark.parametrize("lines", ["0", "-1", "many", "10001", "1e3", "٣"])
def test_a_count_of_lines_that_is_none_is_refused(served: Daemon, lines: str) -> None:
    from urllib.parse import quote

    answer = served.ask("GET", f"/plugins/parrot/logs?lines={quote(lines)}")

    assert (answer.status, answer.body["code"]) == (400, "invalid_params")


def runtime(started: Daemon) -> dict[str, Any]:
    return started.ask("GET", "/plugins/parrot").body["runtime"]


@pytest.mark.req("G-52", "enabling resets the count")
def test_a_plugin_is_stopped_and_started_by_its_switches_and_its_count_begins_anew(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    with daemon(paddock) as started:
        enabled = started.ask("POST", "/plugins/parrot/enable").body
        assert enabled["state"] == "running"
        assert started.ask("POST", "/plugins/parrot/call/die", {}).status == 502
        eventually(lambda: runtime(started)["failures"] == 1, "nobody counted")

        disabled = started.ask("POST", "/plugins/parrot/disable").body
        assert disabled["state"] == "disabled"
        assert not Path(f"/proc/{enabled['pid']}").exists()
        refused = started.ask("POST", "/plugins/parrot/call/say", {"text": "hi"})
        assert (refused.status, refused.body["code"]) == (404, "plugin.not_enabled")

        again = started.ask("POST", "/plugins/parrot/enable").body
        assert (again["state"], again["failures"]) == ("running", 0)
        assert again["pid"] != enabled["pid"]

    # Who installed it without a daemon, and who used its switches through one, is the same person on record.
    mine = paddock("ledger", "tail", "--principal", f"local:{getpass.getuser()}", "--json").json["entries"]
    assert [entry["type"] for entry in mine if entry["type"].startswith("plugin.")] == [
        "plugin.installed",
        "plugin.enabled",
        "plugin.disabled",
        "plugin.enabled",
    ]


@pytest.mark.req("G-19", "a failure does not stop the host")
def test_a_plugin_that_cannot_start_says_why_and_the_daemon_carries_on(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", parrot(tmp_path / "broken", "broken", main="raise SystemExit('no feathers')"), "--yes")
    paddock("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    with daemon(paddock) as started:
        broken = started.ask("POST", "/plugins/broken/enable").body

        assert broken["state"] in ("crashed", "failed")
        assert "no feathers" in broken["reason"]
        assert started.ask("POST", "/plugins/parrot/enable").body["state"] == "running"
