"""A disk that fills up under a daemon: nothing is done that cannot be recorded, everything can be looked at, and room
is all that it takes to go on."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock, Said
from fixtures.daemons import Answer, Daemon, daemon, eventually
from fixtures.mail import mail
from fixtures.packages import write_file, write_json
from fixtures.small_disks import fill, small_disk

LOOK = ("call", "mail.look", "--json")
SEND = ("call", "mail.send", "-p", '{"to": "bob"}', "--json")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    with small_disk(tmp_path_factory.mktemp("full") / "disk", "3m") as place:
        yield place


@pytest.fixture(scope="module")
def served(disk: Path) -> Generator[Daemon, None, None]:
    """A daemon with a home on it."""
    paddock = Paddock(disk / "home", more={"NO_COLOR": "1"})
    paddock("plugin", "install", mail(disk.parent / "mail"), "--yes")
    paddock("plugin", "enable", "mail")
    with daemon(paddock) as started:
        paddock(*LOOK)
        eventually(lambda: "call.ended" in paddock("ledger", "tail").out, "the call is not recorded")
        yield started


@contextmanager
def filled(served: Daemon, disk: Path) -> Generator[None, None, None]:
    """No room from the moment the daemon has noticed, until it has noticed that there is some again."""
    filler = fill(disk)
    eventually(lambda: served.ask("POST", "/calls", {"name": "mail.look"}).status == 503, "it still takes calls")
    try:
        yield
    finally:
        filler.unlink()
        eventually(lambda: served.ask("GET", "/readyz").status == 200, "it does not go on")


def refused(said: Said) -> dict[str, Any]:
    error = said.error
    assert (error["code"], error["category"], error["retryable"]) == ("store.full", "dependency", True)
    assert "there is no room left for the store" in error["message"]
    assert "free some space: df -h " in error["hint"]
    return error


def rows(paddock: Paddock) -> int:
    verified = paddock("ledger", "verify", "--json").json
    assert verified["verdict"] == "sound"
    return verified["chains"][0]["rows"]


def test_every_call_is_refused_in_words_and_nothing_of_it_is_written(served: Daemon, disk: Path) -> None:
    paddock = served.paddock
    with filled(served, disk):
        before = rows(paddock)
        for words in (LOOK, SEND):
            refused(paddock(*words, code=1))
        answer = served.ask("POST", "/plugins/mail/call/send", {"to": "bob"})
        assert (answer.status, answer.body["code"], answer.headers["retry-after"]) == (503, "store.full", "1")
        assert rows(paddock) == before
        assert paddock("approval", "list", "--json").json["approvals"] == []


def test_what_there_is_can_be_looked_at(served: Daemon, disk: Path) -> None:
    paddock = served.paddock
    with filled(served, disk):
        assert paddock("plugin", "list", "--json").json["plugins"][0]["runtime"]["state"] == "running"
        assert paddock("plugin", "show", "mail", "--json").json["name"] == "mail"
        assert "call.ended" in paddock("ledger", "tail").out
        assert paddock("ledger", "verify").out.startswith("✓ default: sound")
        assert paddock("approval", "list", "--json").json["approvals"] == []
        assert "tools-always" in paddock("policy", "show").out
        assert paddock("policy", "try", "mail.look", "--json").json["decision"] == "allow"


def test_whoever_watches_is_told_and_told_when_it_is_over(served: Daemon, disk: Path) -> None:
    with filled(served, disk):
        ready = served.ask("GET", "/readyz")
        assert (ready.status, ready.body["code"]) == (503, "store.full")
        assert served.ask("GET", "/healthz").status == 200
        status = served.ask("GET", "/status").body
        assert (status["takes_calls"], status["troubles"][0]["about"]) == (False, "ledger")
        assert "paddock_recording 0" in served.ask("GET", "/metrics").body
        (check,) = [one for one in served.paddock("doctor", "--json", code=1).json["checks"] if one["name"] == "daemon"]
        assert (check["status"], check["code"]) == ("fail", "store.full")
        assert "it rejects calls: there is no room left" in check["found"]
    status = served.ask("GET", "/status").body
    assert (status["takes_calls"], status["troubles"]) == (True, [])
    assert "paddock_recording 1" in served.ask("GET", "/metrics").body


def told(paddock: Paddock, call: str) -> list[str]:
    return [entry["type"] for entry in paddock("ledger", "show", call, "--json").json["entries"]]


def test_a_yes_is_neither_taken_nor_used_up_and_counts_once_there_is_room(served: Daemon, disk: Path) -> None:
    paddock = served.paddock
    asked = paddock(*SEND, code=4).error["details"]["approval"]
    with filled(served, disk):
        refused(paddock("approval", "approve", asked, "--yes", "--json", code=1))
        (waiting,) = paddock("approval", "list", "--json").json["approvals"]
        assert (waiting["id"], waiting["state"], waiting["answers"]) == (asked, "pending", [])

    paddock("approval", "approve", asked, "--yes")
    eventually(lambda: paddock("approval", "show", asked, "--json").json["state"] == "consumed", "it is not used")
    eventually(lambda: told(paddock, waiting["call_id"])[-1] == "call.ended", "the call does not end")
    assert told(paddock, waiting["call_id"]).count("call.started") == 1


@pytest.mark.slow
def test_a_yes_given_just_before_the_disk_filled_up_starts_nothing_and_is_void(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "3m") as disk:
        paddock = Paddock(disk / "home", more={"NO_COLOR": "1"})
        paddock("plugin", "install", slow_mail(tmp_path / "mail"), "--yes")
        paddock("plugin", "enable", "mail", "--no-start")
        with daemon(paddock) as served:
            waits = paddock(*SEND, code=4).error["details"]
            paddock("approval", "approve", waits["approval"], "--yes")
            filler = fill(disk)
            eventually(lambda: asked_for_another(served).status == 503, "there is still room")
            (paddock.trees / "mail" / "1.0.0" / "go-on").touch()
            eventually(lambda: ended(served, waits)["status"] == "failed", "the call goes on")
            refused_with = ended(served, waits)["error"]
            state_when_full = state(paddock, waits)
            filler.unlink()
            eventually(lambda: state(paddock, waits) == "voided", "the yes is kept for some other day")
        entries = told(paddock, waits["call_id"])
    assert (refused_with["code"], state_when_full) == ("store.full", "approved")
    assert "call.started" not in entries
    assert "approval.consumed" not in entries
    assert "approval.ended" in entries


def slow_mail(root: Path) -> Path:
    """The plugin, which begins once a file lies beside its program."""
    wait = "import os, time\nwhile not os.path.exists('go-on'): time.sleep(0.01)\n"
    manifest = mail(root) / "paddock.yaml"
    write_json(manifest, {**json.loads(manifest.read_text()), "start": "lazy"})
    write_file(root / "main.py", wait + (root / "main.py").read_text())
    return root


def asked_for_another(served: Daemon) -> Answer:
    return served.ask("POST", "/calls", {"name": "mail.send", "params": {"to": "ann"}})


def ended(served: Daemon, waits: dict[str, Any]) -> dict[str, Any]:
    return served.ask("GET", f"/calls/{waits['call_id']}").body


def state(paddock: Paddock, waits: dict[str, Any]) -> str:
    return paddock("approval", "show", waits["approval"], "--json").json["state"]


def test_a_call_refused_for_want_of_room_passes_afterwards_in_the_same_daemon(served: Daemon, disk: Path) -> None:
    paddock, pid = served.paddock, served.process.pid
    with filled(served, disk):
        refused(paddock(*LOOK, code=1))
    assert paddock(*LOOK).json["result"] == {"looked": True}
    assert rows(paddock) > 0
    assert served.ask("GET", "/healthz").body["pid"] == pid
