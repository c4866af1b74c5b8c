"""Rule files over HTTP and on the command line: checked, tested, accepted, saved, and removed."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Answer, Daemon, daemon
from fixtures.people import key_of
from fixtures.prepared_homes import enabled_parrot, prepare_home

QUIET = """// Nobody hears the parrot.
@id("quiet-please") @text("The parrot is quiet.")
forbid (principal, action in Action::"anyCall", resource == Callable::"parrot.say");
"""
HARMLESS = """
@id("nobody-there") @text("Nobody is in this group.")
permit (principal in Group::"office", action in Action::"anyCall", resource);
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("policy-files")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("user", "add", "olga", "--role", "operator")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    paddock.quickly("group", "add", "office")
    with daemon(paddock) as started:
        yield started


@pytest.fixture(autouse=True)
def no_rules(served: Daemon) -> Generator[None, None, None]:
    yield
    for file in served.ask("GET", "/policy/files").body["files"]:
        remove(served, file["name"], file["digest"], accept=check(served, file["name"], None).body["version"])


def check(served: Daemon, name: str, text: str | None) -> Answer:
    return served.ask("POST", f"/policy/files/{name}/check", {"text": text})


def put(served: Daemon, name: str, text: str, **more: Any) -> Answer:
    return served.ask("PUT", f"/policy/files/{name}", {"text": text, **more})


def remove(served: Daemon, name: str, digest: str, accept: str = "") -> Answer:
    return served.ask("DELETE", f"/policy/files/{name}?digest={quote(digest)}&accept={accept}")


def rule_ids(served: Daemon) -> set[str]:
    return {rule["id"] for rule in served.ask("GET", "/policy").body["rules"]}


def events(served: Daemon) -> list[tuple[str, str, str]]:
    found = served.ask("GET", "/ledger?type=policy.edited").body["entries"]
    return [(one["facts"]["file"], one["facts"]["change"], one["personal"]["by"]) for one in found]


def test_a_file_with_mistakes_is_not_saved_and_each_mistake_has_its_line(served: Daemon) -> None:
    wrong = QUIET.replace("anyCall", "annyCall") + '\npermit (principal in Role::"gest", action, resource) when {'
    before = len(events(served))
    answer = put(served, "ours.cedar", wrong)

    assert answer.status in (400, 422), answer.body
    assert answer.body["code"] == "policy.invalid"
    assert {one["line"] for one in answer.body["errors"]} >= {3, 5}
    assert served.ask("GET", "/policy/files").body["files"] == []
    assert "quiet-please" not in rule_ids(served)
    assert len(events(served)) == before
    assert put(served, "..%2Fours.cedar", HARMLESS).status in (400, 404)
    assert put(served, "a%20b.cedar", HARMLESS).body["code"] == "policy.file_name"


def test_a_change_is_tried_on_recent_calls_and_saved_once_its_version_is_accepted(served: Daemon) -> None:
    call = served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}}).body["call_id"]
    change = check(served, "ours.cedar", QUIET).body
    (differs,) = change["changed_decisions"]
    assert (differs["name"], differs["after"], differs["rules"]) == ("parrot.say", "deny", ["quiet-please"])
    assert differs["call"] == call
    assert (change["added"], "parrot.say" in change["lost"]) == (["quiet-please"], True)
    assert change["tests"] > 10 and change["needs_acceptance"]

    refused = put(served, "ours.cedar", QUIET)
    assert (refused.status, refused.body["code"]) == (409, "policy.not_accepted")
    assert refused.body["details"]["change"]["version"] == change["version"]
    another = put(served, "ours.cedar", QUIET, accept=change["current_version"])
    assert (another.status, another.body["code"]) == (409, "policy.not_accepted")
    assert put(served, "ours.cedar", HARMLESS, accept=change["version"]).status == 200  # nothing of it needs that
    (stored,) = served.ask("GET", "/policy/files").body["files"]
    saved = put(served, "ours.cedar", QUIET, digest=stored["digest"], accept=change["version"])
    assert saved.status == 200, saved.body
    assert served.ask("GET", "/policy").body["version"] == change["version"]  # at once, and not within seconds
    denied = served.ask("POST", "/policy/try", {"name": "parrot.say"}).body
    assert (denied["decision"], denied["reason"]) == ("deny", "The parrot is quiet.")
    assert [one[:2] for one in events(served)[:2]] == [("ours.cedar", "changed"), ("ours.cedar", "added")]
    assert events(served)[0][2].startswith("local:")
    on_disk = served.paddock.home / "policies" / "ours.cedar"
    assert (on_disk.read_text(), on_disk.stat().st_mode & 0o777) == (QUIET, 0o600)


@pytest.mark.parametrize(
    ("who", "what", "failed", "lost"),
    [
        ('principal in Role::"guest"', "resource", ["a guest reads unattended"], []),
        ("principal", 'resource == Callable::"parrot.count"', [], ["parrot.count"]),
    ],
)
def test_failing_tests_and_lost_tools_are_accepted_too_where_no_recent_call_is_decided_otherwise(
    served: Daemon, who: str, what: str, failed: list[str], lost: list[str]
) -> None:
    rule = f'@id("not-these") @text("Not these.") forbid ({who}, action in Action::"anyCall", {what});\n'
    refused = put(served, "ours.cedar", rule)
    assert (refused.status, refused.body["code"]) == (409, "policy.not_accepted")

    change = refused.body["details"]["change"]
    assert (change["changed_decisions"], change["lost"]) == ([], lost)
    assert [one["name"] for one in change["failed_tests"]][:1] == failed
    assert "not-these" not in rule_ids(served)
    assert put(served, "ours.cedar", rule, accept=change["version"]).status == 200


def test_of_two_changes_of_one_text_the_second_is_refused(served: Daemon) -> None:
    first = put(served, "ours", HARMLESS).body["file"]
    assert first["name"] == "ours.cedar"
    again = HARMLESS.replace("Nobody is", "Hardly anybody is")
    assert put(served, "ours.cedar", again, digest=first["digest"]).status == 200

    for digest in (first["digest"], None):
        late = put(served, "ours.cedar", HARMLESS, digest=digest)
        assert (late.status, late.body["code"]) == (409, "policy.file_changed")
    assert remove(served, "ours.cedar", first["digest"]).status == 409
    assert put(served, "gone.cedar", HARMLESS, digest=first["digest"]).body["code"] == "policy.no_file"
    assert served.ask("GET", "/policy/files/ours.cedar").body["text"] == again
    elsewhere = check(served, "more.cedar", again)
    assert "there is a rule 'nobody-there' already" in json.dumps(elsewhere.body["errors"])


def test_the_rules_of_an_earlier_version_are_found_again(served: Daemon) -> None:
    first = put(served, "ours.cedar", HARMLESS).body
    changed = HARMLESS.replace("permit", "forbid")
    put(served, "ours.cedar", changed, digest=first["file"]["digest"])

    earlier = served.ask("GET", f"/policy/files/ours.cedar?version={first['change']['version']}").body
    assert earlier["text"].strip() == HARMLESS.strip()
    assert served.ask("GET", f"/policy/files/none.cedar?version={first['change']['version']}").status == 404


def test_rule_files_are_those_of_the_operators_of_the_host_in_person(served: Daemon) -> None:
    operator = key_of(served.paddock, "olga", "--role", "operator")
    omar = key_of(served.paddock, "omar", "--role", "operator", "--tenant", "acme")

    assert served.ask_tcp("GET", "/policy/files", authorization=f"Bearer {omar}").status == 403
    assert served.ask_tcp("GET", "/policy/files", authorization=f"Bearer {operator}").status == 200
    body = json.dumps({"text": HARMLESS}).encode()
    refused = served.ask_tcp("PUT", "/policy/files/ours.cedar", body, authorization=f"Bearer {operator}")
    assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")


def test_a_file_that_cannot_be_written_changes_nothing(served: Daemon, tmp_path: Path) -> None:
    folder = served.paddock.home / "policies"
    folder.mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "elsewhere.cedar").write_text(HARMLESS)
    (folder / "link.cedar").symlink_to(tmp_path / "elsewhere.cedar")
    try:
        digest = served.ask("GET", "/policy/files/link.cedar").body["digest"]
        linked = put(served, "link.cedar", HARMLESS + "// more", digest=digest)
        assert linked.body["code"] == "policy.file_name"
    finally:
        (folder / "link.cedar").unlink()
    (folder / ".ours.cedar.new").mkdir()  # where the draft goes
    try:
        failed = put(served, "ours.cedar", HARMLESS)
        assert (failed.status, failed.body["code"]) == (500, "policy.not_written"), failed.body
        assert events(served)[0][:2] == ("ours.cedar", "failed")
        assert "nobody-there" not in rule_ids(served)
    finally:
        (folder / ".ours.cedar.new").rmdir()


def test_rules_are_changed_on_the_command_line(served: Daemon, tmp_path: Path) -> None:
    paddock, draft = served.paddock, tmp_path / "draft.cedar"
    draft.write_text(QUIET)
    served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}})

    tried = paddock.quickly("policy", "file", "set", "ours.cedar", draft, "--dry-run")
    assert "allow → deny" in tried.err + tried.out
    assert "nothing was changed" in tried.err + tried.out
    paddock.quickly("policy", "file", "set", "ours.cedar", draft, code=4)  # asks, and there is no terminal
    saved = paddock.quickly("policy", "file", "set", "ours.cedar", draft, "--yes", "--json").json
    assert saved["change"]["added"] == ["quiet-please"]
    assert "quiet-please" in paddock.quickly("policy", "file", "show", "ours").out
    assert paddock.quickly("policy", "file", "list", "--json").json["files"][0]["name"] == "ours.cedar"
    paddock.quickly("policy", "file", "remove", "ours.cedar", "--yes")
    assert "no rules of your own" in paddock.quickly("policy", "file", "list").err
