"""Answers to a plugin's questions during a call: from `--answers`, else from the terminal.

For the caller, an unanswered question is declined. For an observer of the call, it stays open.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from paddock.cli.output.question_form import DECLINED, FormDialog, ask_question, describe_question, required_fields
from paddock.cli.output.report import is_interactive, print_message, print_problems, styled
from paddock.core.errors import Conflict, Invalid, NotFound, Problem
from paddock.core.printable import printable

MAX_ANSWER_BYTES = 1024 * 1024  # of `--answers`

# Sends an answer. Raises Invalid where it does not match the schema.
SendAnswer: TypeAlias = Callable[[Mapping[str, Any]], object]

# Runs a prompt to its end, and with it what else is in progress.
RunPrompt: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


class QuestionPrompt:
    """Answers the questions of one call.

    Args:
        prepared: The value of `--answers`: an object for every question, a list with an item for each, or None.
        observer_only: Whether this only observes another's call: questions that cannot be answered here are left open.
    """

    def __init__(self, prepared: Any = None, *, observer_only: bool = False) -> None:
        self._prepared_answers = prepared
        self._observer_only = observer_only
        self._count = 0
        self._terminal = is_interactive()

    def answer(self, question: Mapping[str, Any], send: SendAnswer, run: RunPrompt) -> None:
        """Answer a question, repeatedly if the answer is invalid.

        Args:
            question: The question.
            send: Sends the answer.
            run: Runs the prompt, while calls go on.

        Raises:
            Invalid: the answer on the command line is invalid; carries every problem.
        """
        self._count += 1
        prepared = _prepared_answer(self._prepared_answers, self._count)
        if prepared is not None:
            return _send_answer(send, build_answer(question, prepared))
        if not self._terminal and self._observer_only:
            return print_open_question(question)
        if not self._terminal:
            return _send_answer(send, _decline_without_terminal(question))
        while True:
            try:
                return _send_answer(send, run(_fill_in_form(ask_question(question))))
            except Invalid as error:
                print_problems(error.problems, "✗", "red")


def _decline_without_terminal(question: Mapping[str, Any]) -> dict[str, Any]:
    message = printable(str(question["message"]), 400)
    print_message(f"{styled('!', 'yellow')} {question['plugin']} asks: {message}")
    print_message("  declined: there is no terminal to ask at, and no answer to it in --answers")
    return dict(DECLINED)


def print_open_question(question: Mapping[str, Any]) -> None:
    """Print a question that stays open: its fields, and the command that answers it."""
    first, *rest = describe_question(question)
    print_message(f"{styled('!', 'yellow')} {first}")
    for line in rest:
        print_message(line)
    answer: Any = True if "url" in question else dict.fromkeys(required_fields(question), "…")
    argument = printable(shlex.quote(json.dumps(answer, ensure_ascii=False)), 2_000)
    print_message(f"  {styled('→', 'dim')} answer it: paddock call answer {question['call_id']} {argument}")
    print_message("    or decline it, with false in place of the answer")


async def _fill_in_form(form: FormDialog) -> dict[str, Any]:
    """Run the form at the terminal and return the answer."""
    prompt = next(form)
    while True:
        try:
            prompt = form.send(await read_terminal_line(prompt))
        except StopIteration as finished:
            return finished.value


def _send_answer(send: SendAnswer, answer: Mapping[str, Any]) -> None:
    try:
        send(answer)
    except (NotFound, Conflict):
        print_message("the question was taken back meanwhile")


def _prepared_answer(prepared: Any, number: int) -> Any:
    """Return the prepared answer to the question of this number; None if there is none."""
    if prepared is None or isinstance(prepared, dict):
        return cast("dict[str, Any] | None", prepared)
    answers = cast("list[Any]", prepared)
    return answers[number - 1] if number <= len(answers) else None


def build_answer(question: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Turn a prepared value into an answer: keeps only the requested fields; false declines."""
    if value is False:
        return dict(DECLINED)
    if "url" in question:  # only true confirms the visit
        return {"action": "accept"} if value is True else dict(DECLINED)
    properties = question.get("schema", {}).get("properties")
    names: Any = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    content = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {"action": "accept", "content": {name: item for name, item in content.items() if name in names}}


def read_answers_option(option: str | None) -> Any:
    """Read the value of `--answers`, from a file if it begins with @.

    Raises:
        Invalid: it is not JSON, or neither an object nor a list of objects, true and false.
        NotFound: there is no such file.
    """
    if option is None:
        return None
    origin, value = read_json_argument(option, "--answers")
    valid = isinstance(value, dict) or (
        isinstance(value, list) and all(isinstance(item, dict | bool) for item in cast("list[Any]", value))
    )
    if valid:
        return cast("Any", value)
    hint = """write for instance --answers '{"colour": "red"}', or a list with something for each question"""
    problem = Problem(origin, "is not a JSON object, or a list of objects, true and false", hint, "not_json")
    raise Invalid("the answers are not valid", [problem], code="invalid_params")


def read_answer_argument(argument: str) -> Any:
    """Read the answer to one question, from a file if it begins with @.

    Raises:
        Invalid: it is neither a JSON object nor true or false.
        NotFound: there is no such file.
    """
    origin, value = read_json_argument(argument, "ANSWER")
    if isinstance(value, dict | bool):
        return cast("Any", value)
    hint = """write for instance '{"colour": "red"}'; false declines"""
    problem = Problem(origin, "is not a JSON object, true or false", hint, "not_json")
    raise Invalid("the answer is not valid", [problem], code="invalid_params")


def read_json_argument(argument: str, origin: str) -> tuple[str, Any]:
    """Parse a JSON argument, from a file if it begins with @; return its origin and the value.

    The value is None if it is not JSON.

    Raises:
        NotFound: there is no such file.
    """
    text = argument
    if argument.startswith("@"):
        origin = argument[1:]
        try:
            with Path(origin).open(encoding="utf-8") as file:
                text = file.read(MAX_ANSWER_BYTES + 1)
        except (OSError, ValueError) as error:
            hint = "name a file that is there and that you can read, or write the JSON itself"
            raise NotFound(f"cannot read {origin}: {error}", code="params.unreadable", hint=hint) from None
    try:
        return origin, json.loads(text) if len(text) <= MAX_ANSWER_BYTES else None
    except (ValueError, RecursionError):
        return origin, None


async def read_terminal_line(prompt: str) -> str | None:
    """Read the next line from the terminal; None at the end of input."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    import asyncio  # most calls ask nothing, and need no loop with a daemon

    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
    line = os.read(descriptor, 65_536).decode(errors="replace")  # a terminal returns one line per read
    if not line:
        print_message()
    return line.rstrip("\n") if line else None
