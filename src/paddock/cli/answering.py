"""Who answers what a plugin asks during a call: the command line where it says, then the terminal, then nobody."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from paddock.cli.output import interactive, say, show_problems, styled
from paddock.cli.question_form import DECLINED, Form, put
from paddock.core.errors import Conflict, Invalid, NotFound, Problem
from paddock.core.printable import printable

LARGEST = 1024 * 1024  # bytes of `--answers`

# Gives an answer to whoever asked. Raises Invalid where it does not fit.
Send: TypeAlias = Callable[[Mapping[str, Any]], object]


class Answering:
    """The answers for one call.

    Args:
        given: What stood behind `--answers`: an object for every question, a list with something for each, or None.
    """

    def __init__(self, given: Any = None) -> None:
        self._given = given
        self._count = 0
        self._terminal = interactive()

    async def answer(self, question: Mapping[str, Any], send: Send) -> None:
        """Answer a question, again where the answer does not fit. Whatever else runs in this loop goes on meanwhile.

        Raises:
            Invalid: what was given on the command line does not fit; carries every mistake.
        """
        ready = self._ready(question)
        if ready is not None:
            return _sent(send, ready)
        while True:
            try:
                return _sent(send, await _filled(put(question)))
            except Invalid as error:
                show_problems(error.problems, "✗", "red")

    def _ready(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer that nobody has to be asked for; None where somebody has to."""
        self._count += 1
        if self._given is not None:
            given = _next(self._given, self._count)
            if given is not None:
                return _fitted(question, given)
        if self._terminal:
            return None
        words = printable(str(question["message"]), 400)
        say(f"{styled('!', 'yellow')} {question['plugin']} asks: {words}")
        say("  declined: there is no terminal to ask at, and no answer to it in --answers")
        return dict(DECLINED)


async def _filled(form: Form) -> dict[str, Any]:
    """The answer that somebody types."""
    shown = next(form)
    while True:
        try:
            shown = form.send(await _typed(shown))
        except StopIteration as done:
            return done.value


def _sent(send: Send, answer: Mapping[str, Any]) -> None:
    try:
        send(answer)
    except (NotFound, Conflict):
        say("the question was taken back meanwhile")


def _next(given: Any, number: int) -> Any:
    """What was given for the question of this number; None where nothing was."""
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    answers = cast("list[Any]", given)
    return answers[number - 1] if number <= len(answers) else None


def _fitted(question: Mapping[str, Any], given: Any) -> dict[str, Any]:
    if given is False:
        return dict(DECLINED)
    if "url" in question:  # whether somebody was there is said by true alone
        return {"action": "accept"} if given is True else dict(DECLINED)
    asked = question.get("schema", {}).get("properties")
    names: Any = cast("dict[str, Any]", asked) if isinstance(asked, dict) else {}
    content = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return {"action": "accept", "content": {name: value for name, value in content.items() if name in names}}


def given_answers(written: str | None) -> Any:
    """What stands behind `--answers`, in a file where it begins with @.

    Raises:
        Invalid: it is not JSON, or neither an object nor a list of objects, true and false.
        NotFound: there is no such file.
    """
    if written is None:
        return None
    where, text = "--answers", written
    if written.startswith("@"):
        where = written[1:]
        try:
            with Path(where).open(encoding="utf-8") as file:
                text = file.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            raise NotFound(f"cannot read {where}: {error}", code="params.unreadable") from None
    try:
        given: Any = json.loads(text) if len(text) <= LARGEST else None
    except (ValueError, RecursionError):
        given = None
    fits = isinstance(given, dict) or (
        isinstance(given, list) and all(isinstance(one, dict | bool) for one in cast("list[Any]", given))
    )
    if fits:
        return cast("Any", given)
    hint = """write for instance --answers '{"colour": "red"}', or a list with something for each question"""
    problem = Problem(where, "is not a JSON object, or a list of objects, true and false", hint, "not_json")
    raise Invalid("the answers are not valid", [problem], code="invalid_params")


async def _typed(shown: str) -> str | None:
    """The next line that somebody types; None where they typed that there will be none."""
    sys.stderr.write(shown)
    sys.stderr.flush()
    import asyncio  # most calls ask nothing, and with a daemon need no loop of their own

    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(number, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(number)
    line = os.read(number, 65_536).decode(errors="replace")  # a terminal gives one at a time
    if not line:
        say()
    return line.rstrip("\n") if line else None
