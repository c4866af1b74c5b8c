"""Errors that nobody foresaw: the caller gets an id, the log gets the rest."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from fixtures.all_cases import all_cases
from paddock.core import errors
from paddock.core.action import Action
from paddock.core.error_formats import error_from_problem, error_to_json, exit_code
from paddock.core.errors import Category, Invalid, NotFound, PaddockError, Problem
from paddock.web.routing.error_formats import full_problem
from paddock.web.routing.errors import ErrorMiddleware, ErrorPage

SECRET = "hunter2"


async def answered(inside: Any, page: ErrorPage | None = None, path: str = "/api/v1/plugins") -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope: Scope = {"type": "http", "method": "GET", "path": path, "state": {}, "headers": []}
    scope["headers"] = [(b"accept", b"text/html")]
    await ErrorMiddleware(inside, lambda: "err_1", page=page)(scope, receive, send)
    return sent


async def test_an_unforeseen_error_shows_an_id_and_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError(SECRET)

    with caplog.at_level(logging.ERROR):
        start, body = await answered(inside)

    problem = json.loads(body["body"])
    assert (start["status"], problem["code"], problem["error_id"]) == (500, "internal", "err_1")
    assert SECRET not in body["body"].decode()
    (record,) = caplog.records
    assert record.exc_info and SECRET in str(record.exc_info[1])
    assert record.__dict__["facts"]["error_id"] == "err_1"


async def test_an_error_is_told_also_where_its_page_cannot_be_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        raise NotFound("there is no hay", code="hay.none")

    def page(*args: Any) -> Any:
        raise RuntimeError("the page has a mistake of its own")

    start, body = await answered(inside, page, "/plugins")

    assert (start["status"], json.loads(body["body"])["code"]) == (404, "hay.none")
    assert "a mistake of its own" in caplog.text


async def test_an_error_after_the_answer_began_ends_the_connection_instead_of_writing_a_second_one() -> None:
    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError(SECRET)

    with pytest.raises(RuntimeError):
        await answered(inside)


def every_error() -> list[type[PaddockError]]:
    found = [errors.PaddockError]
    for kind in found:
        found += kind.__subclasses__()
    return [kind for kind in found if kind.__module__ == errors.__name__ and kind is not Invalid]


@all_cases("kind", every_error(), ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_at_both_ends_of_the_socket(kind: type[PaddockError]) -> None:
    action = Action.of("plugin.show", plugin="parrot")
    error = kind("it did not work", code="some.code", hint="try this", action=action, details={"plugin": "parrot"})

    again = error_from_problem(json.loads(json.dumps(full_problem(error, "err_1"))), 500)

    assert error_to_json(again) == error_to_json(error)
    assert exit_code(again) == exit_code(error)


def test_every_mistake_of_a_document_arrives_with_its_place() -> None:
    action = Action.of("plugin.show", plugin="parrot")
    problems = [Problem("a.b", "wrong", "right", "type", 3, action), Problem("", "empty")]
    error = Invalid("two mistakes", problems, action=action)

    again = error_from_problem(json.loads(json.dumps(full_problem(error, "err_1"))), 400)

    assert isinstance(again, Invalid)
    assert error_to_json(again) == error_to_json(error)
    assert again.problems == error.problems


@pytest.mark.parametrize("body", [None, [], "no", {}, {"category": "weather"}, {"message": None, "details": None}])
def test_an_answer_that_is_no_problem_body_is_still_an_error(body: Any) -> None:
    assert error_from_problem(body, 502).category is Category.INTERNAL
