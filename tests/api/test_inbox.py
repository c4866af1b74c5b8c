"""The inbox over HTTP: everything that needs a person in one list, and only what they may answer."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Answer, Daemon, daemon, eventually
from fixtures.mail import mail
from fixtures.people import key_of
from paddock.core.events.event import EVENT_TYPES
from paddock.host.inbox.inbox import CHANGES
from paddock.webhooks.cloud_event import matches_pattern


@dataclass(frozen=True, slots=True)
class Served:
    """A host that its operator asks on its socket, and Ann with a key of hers."""

    daemon: Daemon
    key: str

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return self.daemon.ask(method, path, body)

    def ask_as_ann(self, method: str, path: str, body: Any = None) -> Answer:
        return self.daemon.ask_tcp(method, path, body, authorization=f"Bearer {self.key}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    folder = tmp_path_factory.mktemp("inbox")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    for person, role in (("ann", "member"), ("chief", "approver")):
        paddock.quickly("user", "add", person, "--role", role)
    key = key_of(paddock, "ann")
    with daemon(paddock) as started:
        yield Served(started, key)


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
