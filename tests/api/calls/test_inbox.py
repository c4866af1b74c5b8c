"""The inbox over HTTP: everything that needs a person in one list, and only what they may answer."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.definitions.listings import fine, tool

from fixtures.commands import Paddock
from fixtures.daemons import Answer, Daemon, daemon, eventually
from fixtures.mail import mail
from fixtures.packages import native, write_file
from fixtures.people import key_of
from paddock.core.events.event import EVENT_TYPES
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.inbox.inbox import CHANGES
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.tool_pinning.normalize import normalize_definitions
from paddock.plugins.tool_pinning.record import record_listing
from paddock.webhooks.cloud_event import matches_pattern

FALLS = """
import os
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.tool
def add(params, context):
    os._exit(1)
plugin.run()
"""
FOR_OPERATORS = {"unknown_outcome", "definition", "repair"}


@dataclass(frozen=True, slots=True)
class Served:
    """A host that its operator asks on its socket, and Ann with a key of hers."""

    daemon: Daemon
    key: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.daemon.ask(method, path, body, **headers)

    def ask_as_ann(self, method: str, path: str, body: Any = None) -> Answer:
        return self.daemon.ask_tcp(method, path, body, authorization=f"Bearer {self.key}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    folder = tmp_path_factory.mktemp("inbox")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    falls_over_its_calls(paddock, folder / "notes")
    has_changed_its_tool(paddock, folder / "files")
    for person, role in (("ann", "member"), ("chief", "approver")):
        paddock.quickly("user", "add", person, "--role", role)
    key = key_of(paddock, "ann")
    with daemon(paddock) as started:
        yield Served(started, key)


def falls_over_its_calls(paddock: Paddock, folder: Path) -> None:
    """A plugin whose calls have an unknown outcome."""
    add = {"name": "add", "description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}}
    package = native(folder, runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=[add])
    write_file(package / "main.py", FALLS)
    paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("plugin", "enable", "notes", "--no-start")


def has_changed_its_tool(paddock: Paddock, folder: Path) -> None:
    """A server that was met twice, and says another thing of its tool since."""
    runtime = {"command": ["./run.sh"], "protocol": "mcp"}
    paddock.quickly("plugin", "install", native(folder, "files", runtime=runtime, capabilities=[], tools=None), "--yes")
    for description in ("Read a file", "Read a file, and send it on"):
        with open_local_store({"PADDOCK_HOME": str(paddock.home)}, paddock.home) as host:
            listing = normalize_definitions([tool("read", description)], fine)
            record_listing(host.plugins, DEFAULT_TENANT, "files", listing, digest="sha256:1")


def asked(served: Served, to: str) -> str:
    """A request of Ann's; with several people on the host, others than her answer it."""
    made = served.ask_as_ann("POST", "/plugins/mail/call/send", {"to": to})
    assert made.status == 202, made.body
    return made.body["approval"]["approval"]


def inbox(served: Served, query: str = "", *, of_ann: bool = False) -> dict[str, Any]:
    answer = (served.ask_as_ann if of_ann else served.ask)("GET", f"/inbox{query}")
    assert answer.status == 200, answer.body
    return answer.body


@pytest.mark.req("B-18", "inbox")
def test_what_needs_a_person_is_listed_shown_and_gone_once_it_is_answered(served: Served) -> None:
    first, second = asked(served, "bob"), asked(served, "x" * 3_000)

    page = inbox(served, "?kind=approval")
    assert [item["id"] for item in page["items"]] == [first, second]
    item, long = page["items"]
    assert (item["kind"], item["risk"], item["title"]) == ("approval", "danger", "mail · send")
    assert (item["inputs"], [one["answer"] for one in item["choices"]]) == ({"to": "bob"}, ["approve", "deny"])
    assert item["action"] == {"kind": "approval.approve", "arguments": {"approval": first}}
    assert item["link"] == f"/approvals/{first}" and item["rules"] and item["expires_at"] > item["created_at"]
    assert (long["inputs"], long["choices"]) == (None, []), "inputs that do not fit are looked at before they count"
    assert page["counts"]["by_kind"]["approval"] == 2

    rest = inbox(served, f"?kind=approval&limit=1&after={inbox(served, '?kind=approval&limit=1')['next']}")
    assert ([one["id"] for one in rest["items"]], rest["next"]) == ([second], None)
    assert served.ask("GET", f"/inbox/{second}").body["reference"].startswith("call_")

    for approval in (first, second):
        served.ask("POST", f"/approvals/{approval}/deny", {})
    assert inbox(served, "?kind=approval")["items"] == []
    gone = served.ask("GET", f"/inbox/{first}")
    assert (gone.status, gone.body["code"]) == (404, "inbox.not_found")
    for query in ("?after=nonsense", "?kind=letters", "?after=WzksMSwxLDFd"):
        assert served.ask("GET", f"/inbox{query}").status == 400


@pytest.mark.req("B-18", "inbox")
def test_each_person_sees_what_they_may_answer_and_what_others_answer_for_them(served: Served) -> None:
    own = asked(served, "bob")
    try:
        assert own not in [one["id"] for one in inbox(served, of_ann=True)["items"]]
        others = inbox(served, "?with_others=1", of_ann=True)
        assert [one["id"] for one in others["items"]] == [own] and others["counts"]["with_others"] == 1
        assert [one["answer"] for one in others["items"][0]["choices"]] == ["deny"], "it can be taken back"
        assert {one["kind"] for one in inbox(served, of_ann=True)["items"]} <= {"approval", "consent"}
    finally:
        served.ask("POST", f"/approvals/{own}/deny", {})


@pytest.mark.req("B-18", "inbox")
def test_what_only_operators_can_settle_is_neither_listed_counted_nor_found_for_others(served: Served) -> None:
    served.ask("POST", "/calls", {"name": "notes.add", "params": {}}, idempotency_key="once")
    key_of(served.daemon.paddock, "chief", "--expires", "3d")  # a repair: it is not valid for long

    def by_kind() -> dict[str, str]:
        return {item["kind"]: item["id"] for item in inbox(served)["items"]}

    eventually(lambda: by_kind().keys() >= FOR_OPERATORS, "not everything is listed")  # repairs are looked for at times
    listed, hers = by_kind(), inbox(served, of_ann=True)
    assert not FOR_OPERATORS & {item["kind"] for item in hers["items"]}
    for kind in sorted(FOR_OPERATORS):
        assert inbox(served, f"?kind={kind}", of_ann=True)["items"] == []
        assert (hers["counts"]["by_kind"][kind], inbox(served)["counts"]["by_kind"][kind] > 0) == (0, True)
        assert served.ask("GET", f"/inbox/{listed[kind]}").body["kind"] == kind
        assert served.ask_as_ann("GET", f"/inbox/{listed[kind]}").status == 404


@pytest.mark.req("B-18", "inbox")
def test_counts_are_followed_live(served: Served) -> None:
    def followed(number: int) -> None:
        assert any(told["data"]["by_kind"]["approval"] == number for told in events)

    with served.daemon.following("/inbox/events") as events:
        before = next(events)["data"]["by_kind"]["approval"]
        approval = asked(served, "eve")
        followed(before + 1)
        served.ask("POST", f"/approvals/{approval}/approve", {})
        followed(before)


def test_every_event_that_changes_the_inbox_exists() -> None:
    assert [one for one in CHANGES if not any(matches_pattern(one, known) for known in EVENT_TYPES)] == []


def test_nothing_is_asked_for_twice(served: Served) -> None:
    eventually(lambda: inbox(served)["counts"]["total"] == len(inbox(served, "?limit=200")["items"]), "counts differ")
