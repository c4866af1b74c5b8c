"""What a plugin asks during a call, over HTTP: seen by whoever follows it, answered once, gone when the call is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("questions")
    paddock = Paddock(folder / "home")
    paddock("plugin", "install", butler(folder / "butler"), "--yes")
    paddock("plugin", "enable", "butler")
    with daemon(paddock) as started:
        yield started


def painting(served: Daemon, tool: str = "paint", **params: Any) -> str:
    """The id of a call that goes on by itself, once its plugin has asked."""
    made = served.ask("POST", f"/plugins/butler/call/{tool}", params, prefer="respond-async").body["call_id"]
    eventually(lambda: bool(served.ask("GET", f"/calls/{made}").body["questions"]), "it never asked")
    return made


def ended(served: Daemon, call: str) -> Any:
    eventually(lambda: served.ask("GET", f"/calls/{call}").body["status"] != "running", "it never ended")
    return served.ask("GET", f"/calls/{call}").body


def test_a_question_is_told_to_followers_listed_by_the_call_and_answered(served: Daemon) -> None:
    call = painting(served)
    (question,) = served.ask("GET", f"/calls/{call}").body["questions"]
    assert (question["plugin"], question["call_id"]) == ("butler", call)
    assert question["message"] == "Which \\x1b[31mcolour?"
    assert question["schema"]["required"] == ["colour"]

    with served.following(f"/calls/{call}/events") as events:
        asked = next(events)
        assert (asked["event"], asked["data"]) == ("question", question)
        content = {"colour": "red", "coats": 3}
        answer = {"action": "accept", "content": content}
        said = served.ask("POST", f"/calls/{call}/questions/{question['id']}", answer)
        assert said.status == 200
        answered = next(events)
        assert answered["data"] == {"type": "answered", "id": question["id"], "action": "accept"}
        assert next(events)["event"] == "end"

    assert ended(served, call)["result"]["structuredContent"] == {"action": "accept", "content": content}
    assert ended(served, call)["questions"] == []


def test_an_answer_that_does_not_fit_is_refused_with_every_mistake_and_the_question_stays_open(served: Daemon) -> None:
    call = painting(served)
    wrong = {"action": "accept", "content": {"colour": "green", "coats": 0}}
    refused = served.ask("POST", f"/calls/{call}/questions/q1", wrong)

    assert (refused.status, refused.body["code"]) == (422, "answer.invalid")
    assert {problem["path"] for problem in refused.body["errors"]} == {"colour", "coats"}
    assert len(served.ask("GET", f"/calls/{call}").body["questions"]) == 1
    assert served.ask("POST", f"/calls/{call}/questions/q1", {"action": "decline"}).status == 200
    assert ended(served, call)["result"]["structuredContent"] == {"action": "decline"}


def test_a_question_is_answered_once_and_never_after_its_call(served: Daemon) -> None:
    call = painting(served)
    unknown = served.ask("POST", f"/calls/{call}/questions/q7", {"action": "decline"})
    unclear = served.ask("POST", f"/calls/{call}/questions/q1", {"action": "maybe"})
    served.ask("POST", f"/calls/{call}/cancel")
    ended(served, call)
    late = served.ask("POST", f"/calls/{call}/questions/q1", {"action": "decline"})

    assert (unknown.status, unknown.body["code"]) == (404, "question.not_found")
    assert (unclear.status, unclear.body["errors"][0]["path"]) == (400, "action")
    assert (late.status, late.body["code"]) == (409, "call.over")


def test_a_page_to_visit_has_its_address_and_no_content(served: Daemon) -> None:
    call = painting(served, "visit")
    (question,) = served.ask("GET", f"/calls/{call}").body["questions"]
    assert question["url"] == "https://example.com/sign-in" and "schema" not in question

    served.ask("POST", f"/calls/{call}/questions/{question['id']}", {"action": "accept"})
    assert ended(served, call)["result"]["structuredContent"] == {"action": "accept"}


def test_for_a_caller_that_only_waits_questions_are_declined(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/butler/call/paint", {})

    assert answer.body["result"]["structuredContent"] == {"action": "decline"}


def test_a_question_that_is_far_too_long_is_put_to_nobody(served: Daemon) -> None:
    made = served.ask("POST", "/calls?detach=1", {"name": "butler.paint", "params": {"filler": 70_000}})

    assert ended(served, made.body["call_id"])["result"]["structuredContent"] == {"action": "cancel"}
