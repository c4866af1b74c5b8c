"""What rules see of the circumstances of a call: whether anybody waits for it, and whether it is a dry run."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.mail import mail

RULES = """
@id("waited-for") @text("Somebody has to wait for it.")
forbid (principal, action in Action::"anyCall", resource == Callable::"mail.look") when { context.background };
@id("not-to-be-tried") @text("It is not tried out.")
forbid (principal, action in Action::"anyCall", resource == Callable::"mail.odd") when { context.dry_run };
@id("no-letters-to-bob") @text("Guests send nothing.")
forbid (principal in Role::"guest", action in Action::"anyCall", resource == Callable::"mail.send");
@id("audited") @text("The audit of March is on.") @public_text("Not now.")
forbid (principal in Role::"guest", action in Action::"anyCall", resource == Callable::"mail.look");
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("circumstances")
    paddock = Paddock(folder / "home", more={"NO_COLOR": "1"})
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    write_rules(paddock.home)
    with daemon(paddock) as started:
        yield started


def write_rules(home: Path) -> None:
    (home / "policies").mkdir(mode=0o700, exist_ok=True)
    file = home / "policies" / "own.cedar"
    file.write_text(RULES)
    file.chmod(0o600)


def outcome(served: Daemon, call_id: str) -> dict[str, Any]:
    with served.following(f"/calls/{call_id}/events") as events:
        return next(event["data"] for event in events if event["event"] == "end")


def test_a_call_that_its_caller_detached_from_is_in_the_background_for_the_rules(served: Daemon) -> None:
    look = {"name": "mail.look", "params": {}}
    assert served.ask("POST", "/calls", look).body["status"] == "succeeded"

    detached = [
        served.ask("POST", "/calls?detach=1", look).body["call_id"],
        served.ask("POST", "/plugins/mail/call/look?detach=1", {}).body["call_id"],
        served.ask("POST", "/plugins/mail/call/look", {}, Prefer="respond-async").body["call_id"],
        served.paddock.quickly("call", "mail.look", "--detach", "--json").json["call_id"],
    ]
    for call_id in detached:
        ended = outcome(served, call_id)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "policy_denied")
        assert "Somebody has to wait for it" in ended["error"]["message"]
        (explained,) = served.paddock.quickly("explain", call_id, "--json").json["calls"]
        assert explained["same_today"], "nobody would wait for it today either"
    assert served.ask("POST", "/calls", look).body["status"] == "succeeded", "the other decision is still its own"


def test_a_dry_run_says_what_would_happen_and_runs_nothing(served: Daemon) -> None:
    paddock = served.paddock

    def tried(*words: object, code: int = 0) -> dict[str, Any]:
        return paddock.quickly("call", *words, "--dry-run", "--json", code=code).json

    look = tried("mail.look")
    assert (look["would"], look["decision"], look["problems"], look["approval"]) == ("run", "allow", [], None)
    send = tried("mail.send", "-p", '{"to": "bob"}')
    assert (send["would"], send["decision"], send["approval"]["kind"]) == ("wait_for_approval", "ask", "action")
    assert send["effects"] == ["external_send"]
    unfit = tried("mail.send", "-p", '{"too": "bob"}', code=6)
    assert (unfit["would"], [problem["path"] for problem in unfit["problems"]]) == ("be_rejected", ["to"])
    paddock.quickly("user", "add", "gwen", "--role", "guest")
    denied = tried("mail.send", "-p", '{"to": "bob"}', "--as", "user:gwen", code=5)
    assert (denied["would"], denied["policies"]) == ("be_denied", ["no-letters-to-bob"])
    quiet = tried("mail.look", "--as", "user:gwen", code=5)
    assert (quiet["would"], quiet["reason"], quiet["policies"]) == ("be_denied", "Not now.", []), "the rest is withheld"
    text = paddock.quickly("call", "mail.send", "-p", '{"to": "bob"}', "--dry-run").out
    assert "mail.send 1.0.0 would wait for a person. Nothing ran." in text
    assert f"effects   external_send: {send['does'][0]}" in text

    assert paddock.quickly("approval", "list", "--json").json["approvals"] == [], "nobody was asked"
    made = paddock.quickly("ledger", "tail", "--type", "call.*", "--plugin", "mail", "--json").json["entries"]
    assert not [entry for entry in made if entry["type"] == "call.started"]
    runs = [entry for entry in made if entry["type"] == "call.dry_run"]
    assert [entry["facts"]["would"] for entry in runs][:2] == ["run", "wait_for_approval"]


def test_the_rules_see_a_dry_run_and_may_forbid_it_to_who_may_call(served: Daemon) -> None:
    for path, body in (
        ("/calls", {"name": "mail.odd", "dry_run": True}),
        ("/calls?dry_run=1", {"name": "mail.odd"}),
        ("/plugins/mail/call/odd?dry_run=1", {}),
    ):
        refused = served.ask("POST", path, body)
        assert (refused.status, refused.body["code"]) == (403, "policy_denied"), path
        assert "It is not tried out" in refused.body["detail"]
    waiting = served.ask("POST", "/calls", {"name": "mail.odd", "params": {}})
    assert waiting.status == 202, "the decision about the call itself is another one"
    assert served.paddock.quickly("call", "mail.odd", "--dry-run", "--detach", code=2).code == 2


def test_a_dry_run_of_a_call_that_nobody_would_wait_for_says_what_would_become_of_that(served: Daemon) -> None:
    look = {"name": "mail.look", "params": {}}
    assert served.ask("POST", "/calls?dry_run=1", look).body["would"] == "run"
    for tried in (
        served.ask("POST", "/calls?dry_run=1&detach=1", look),
        served.ask("POST", "/plugins/mail/call/look?dry_run=1", {}, Prefer="respond-async"),
    ):
        assert (tried.body["would"], tried.body["policies"]) == ("be_denied", ["waited-for"])


def test_a_dry_run_needs_no_daemon(paddock: Paddock, tmp_path: Path) -> None:
    paddock.quickly("plugin", "install", mail(tmp_path / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail")
    assert "would run" in paddock.quickly("call", "mail.look", "--dry-run").out
    assert paddock.quickly("plugin", "show", "mail", "--json").json["state"] != "running"
