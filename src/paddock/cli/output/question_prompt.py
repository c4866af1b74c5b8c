"""Who answers what a plugin asks during a call: the command line where it says, then the terminal, then nobody.

For whoever made the call, a question that nobody answers is declined. For whoever only looks at it, it stays open.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from paddock.cli.output.question_form import DECLINED, FormDialog, ask_question, describe_question, required_fields
from paddock.cli.output.report import is_interactive, print_message, print_problems, styled
from paddock.core.errors import Conflict, Invalid, NotFound, Problem
from paddock.core.printable import printable

MAX_ANSWER_BYTES = 1024 * 1024  # bytes of `--answers`

# Gives an answer to whoever asked. Raises Invalid where it does not fit.
SendAnswer: TypeAlias = Callable[[Mapping[str, Any]], object]


class QuestionPrompt:
    """The answers for one call.

    Args:
        given: What stood behind `--answers`: an object for every question, a list with something for each, or None.
        looking: Whether the call is somebody else's: what we cannot answer is then left to them.
    """

    def __init__(self, given: Any = None, *, looking: bool = False) -> None:
        self._prepared_answers = given
        self._observer_only = looking
        self._count = 0
        self._terminal = is_interactive()

    async def answer(self, question: Mapping[str, Any], send: SendAnswer) -> None:
        """Answer a question, again where the answer does not fit. Whatever else runs in this loop goes on meanwhile.

        Raises:
            Invalid: what was given on the command line does not fit; carries every mistake.
        """
        self._count += 1
        given = _prepared_answer(self._prepared_answers, self._count)
        if given is not None:
            return _send_answer(send, build_answer(question, given))
        if not self._terminal and self._observer_only:
            return print_open_question(question)
        if not self._terminal:
            return _send_answer(send, _decline_without_terminal(question))
        while True:
            try:
                return _send_answer(send, await _fill_in_form(ask_question(question)))
            except Invalid as error:
                print_problems(error.problems, "✗", "red")


def _decline_without_terminal(question: Mapping[str, Any]) -> dict[str, Any]:
    words = printable(str(question["message"]), 400)
    print_message(f"{styled('!', 'yellow')} {question['plugin']} asks: {words}")
    print_message("  declined: there is no terminal to ask at, and no answer to it in --answers")
    return dict(DECLINED)


def print_open_question(question: Mapping[str, Any]) -> None:
    """A question that stays open: what it asks for, and what to type to answer it."""
    first, *rest = describe_question(question)
    print_message(f"{styled('!', 'yellow')} {first}")
    for line in rest:
        print_message(line)
    answer: Any = True if "url" in question else dict.fromkeys(required_fields(question), "…")
    typed = printable(shlex.quote(json.dumps(answer, ensure_ascii=False)), 2_000)
    print_message(f"  {styled('→', 'dim')} answer it: paddock calls answer {question['call_id']} {typed}")
    print_message("    or decline it, with false in place of the answer")


async def _fill_in_form(form: FormDialog) -> dict[str, Any]:
    """The answer that somebody types."""
    shown = next(form)
    while True:
        try:
            shown = form.send(await read_terminal_line(shown))
        except StopIteration as done:
            return done.value


def _send_answer(send: SendAnswer, answer: Mapping[str, Any]) -> None:
    try:
        send(answer)
    except (NotFound, Conflict):
        print_message("the question was taken back meanwhile")


def _prepared_answer(given: Any, number: int) -> Any:
    """What was given for the question of this number; None where nothing was."""
    if given is None or isinstance(given, dict):
        return cast("dict[str, Any] | None", given)
    answers = cast("list[Any]", given)
    return answers[number - 1] if number <= len(answers) else None


def build_answer(question: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """What was given, as the answer to a question: of its fields those that are asked for, false is no."""
    if given is False:
        return dict(DECLINED)
    if "url" in question:  # whether somebody was there is said by true alone
        return {"action": "accept"} if given is True else dict(DECLINED)
    asked = question.get("schema", {}).get("properties")
    names: Any = cast("dict[str, Any]", asked) if isinstance(asked, dict) else {}
    content = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return {"action": "accept", "content": {name: value for name, value in content.items() if name in names}}


def read_answers_option(written: str | None) -> Any:
    """What stands behind `--answers`, in a file where it begins with @.

    Raises:
        Invalid: it is not JSON, or neither an object nor a list of objects, true and false.
        NotFound: there is no such file.
    """
    if written is None:
        return None
    where, given = read_json_argument(written, "--answers")
    fits = isinstance(given, dict) or (
        isinstance(given, list) and all(isinstance(one, dict | bool) for one in cast("list[Any]", given))
    )
    if fits:
        return cast("Any", given)
    hint = """write for instance --answers '{"colour": "red"}', or a list with something for each question"""
    problem = Problem(where, "is not a JSON object, or a list of objects, true and false", hint, "not_json")
    raise Invalid("the answers are not valid", [problem], code="invalid_params")


def read_answer_argument(written: str) -> Any:
    """The answer to one question, in a file where it begins with @.

    Raises:
        Invalid: it is neither a JSON object nor true or false.
        NotFound: there is no such file.
    """
    where, given = read_json_argument(written, "ANSWER")
    if isinstance(given, dict | bool):
        return cast("Any", given)
    hint = """write for instance '{"colour": "red"}'; false declines"""
    problem = Problem(where, "is not a JSON object, true or false", hint, "not_json")
    raise Invalid("the answer is not valid", [problem], code="invalid_params")


def read_json_argument(written: str, where: str) -> tuple[str, Any]:
    """Where something stands, in a file where it begins with @, and what: the JSON, or None where it is none.

    Raises:
        NotFound: there is no such file.
    """
    text = written
    if written.startswith("@"):
        where = written[1:]
        try:
            with Path(where).open(encoding="utf-8") as file:
                text = file.read(MAX_ANSWER_BYTES + 1)
        except (OSError, ValueError) as error:
            hint = "name a file that is there and that you can read, or write the JSON itself"
            raise NotFound(f"cannot read {where}: {error}", code="params.unreadable", hint=hint) from None
    try:
        return where, json.loads(text) if len(text) <= MAX_ANSWER_BYTES else None
    except (ValueError, RecursionError):
        return where, None


async def read_terminal_line(shown: str) -> str | None:
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
        print_message()
    return line.rstrip("\n") if line else None
