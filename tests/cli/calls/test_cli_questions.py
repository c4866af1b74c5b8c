"""What a plugin asks during `paddock call`: at the terminal one field after another, elsewhere by `--answers` alone."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fixtures.butler import butler
from fixtures.commands import INTERRUPT, PATIENCE, SOURCE, Paddock
from fixtures.daemons import daemon
from fixtures.ready_commands import ReadyCommand
from paddock.cli.output.question_form import ask_question

# Without a daemon it is the same story again, except where a test says so.
both_ways = pytest.mark.parametrize("way", [pytest.param("alone", marks=pytest.mark.slow), "served"])
END_OF_INPUT = "\x04"  # what Ctrl-D sends


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Paddock], None, None]:
    """Two homes with an enabled butler; in one of them a daemon runs."""
    folder = tmp_path_factory.mktemp("questions")
    found = {way: Paddock(folder / way / "home", more={"NO_COLOR": "1"}) for way in ("alone", "served")}
    for way, paddock in found.items():
        (folder / way).mkdir()
        paddock("plugin", "install", butler(folder / way / "butler"), "--yes")
        paddock("plugin", "enable", "butler")
    with ExitStack() as running:
        running.enter_context(daemon(found["served"]))
        yield found


@pytest.fixture
def caller(homes: dict[str, Paddock], way: str) -> Paddock:
    return homes[way]


def typed(paddock: Paddock, *words: str, lines: list[str], code: int = 0) -> tuple[str, Any]:
    """What appears when these lines are typed at a call's questions on a real terminal, and what it says at last."""
    ours, theirs = pty.openpty()
    command = ["call", *words]
    where = {"stdin": theirs, "stderr": theirs, "env": paddock.environment, "start_new_session": True}
    process = ReadyCommand(SOURCE, command, stdout=subprocess.PIPE, **where)
    os.close(theirs)
    seen, answered, deadline = b"", 0, time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                seen += os.read(ours, 65_536)
            except OSError:
                break  # the other end is closed
            if seen.count(b"> ") > answered and answered < len(lines):
                answered += 1
                line = lines[answered - 1]
                if line == INTERRUPT:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(ours, line.encode() + (b"" if line == END_OF_INPUT else b"\n"))
        out, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        os.close(ours)
    screen = seen.decode().replace("\r\n", "\n")
    assert process.returncode == code, screen
    assert answered == len(lines), f"only {answered} were asked for\n{screen}"
    return screen, json.loads(out).get("structuredContent") if out else None


@both_ways
def test_a_question_is_asked_field_by_field_with_what_it_takes_and_asked_again_until_it_fits(caller: Paddock) -> None:
    screen, said = typed(caller, "butler.paint", lines=["yes", "green", "BLUE", "many", "", "no"])

    assert "butler asks: Which \\x1b[31mcolour?" in screen
    assert "Colour (red, blue) >" in screen and "✗ take one of those" in screen
    assert "coats (a whole number; may be left empty) [2] >" in screen and "✗ a whole number, please" in screen
    assert "glossy — Whether it shines (yes or no; may be left empty) >" in screen
    assert said == {"action": "accept", "content": {"colour": "blue", "coats": 2, "glossy": False}}


@both_ways
@pytest.mark.parametrize("lines", [["no"], [END_OF_INPUT], ["", "red", END_OF_INPUT]], ids=["no", "end", "midway"])
def test_no_and_the_end_of_input_decline(caller: Paddock, lines: list[str]) -> None:
    assert typed(caller, "butler.paint", lines=lines)[1] == {"action": "decline"}


def test_an_answer_typed_where_yes_or_no_is_asked_declines_nothing(homes: dict[str, Paddock]) -> None:
    screen, said = typed(homes["alone"], "butler.paint", lines=["blue", "y", "blue", "", ""])

    assert "✗ answer yes or no" in screen
    assert said["content"] == {"colour": "blue", "coats": 2}


@both_ways
def test_a_page_is_shown_with_its_address_and_counts_only_with_a_yes(caller: Paddock) -> None:
    screen, said = typed(caller, "butler.visit", lines=["yes"])

    assert "it wants you to go to https://example.com/sign-in" in screen
    assert said == {"action": "accept"}
    screen, said = typed(caller, "butler.visit", lines=["not yet", "no"])
    assert said == {"action": "decline"} and "✗ answer yes or no" in screen


@both_ways
def test_ctrl_c_at_a_question_cancels_the_call(caller: Paddock) -> None:
    screen, _ = typed(caller, "butler.paint", lines=["yes", INTERRUPT], code=130)

    assert "interrupted" in screen


@both_ways
def test_without_a_terminal_a_question_is_declined_and_told_unless_it_was_answered_before(caller: Paddock) -> None:
    declined = caller("call", "butler.paint")
    assert declined.json["structuredContent"] == {"action": "decline"}
    assert "butler asks: Which \\x1b[31mcolour?" in declined.err and "--answers" in declined.err

    for given in ('{"colour": "red", "unasked": 1}', '[{"colour": "red"}]'):
        said = caller("call", "butler.paint", "--answers", given)
        assert said.json["structuredContent"] == {"action": "accept", "content": {"colour": "red"}}
    assert caller("call", "butler.visit", "--answers", "[true]").json["structuredContent"] == {"action": "accept"}
    assert caller("call", "butler.visit", "--answers", "[false]").json["structuredContent"] == {"action": "decline"}


@both_ways
def test_answers_that_do_not_fit_end_the_command_with_every_mistake(caller: Paddock) -> None:
    said = caller("call", "butler.paint", "--answers", '{"colour": "green", "coats": 0}', "--json", code=6)

    assert said.error["code"] == "answer.invalid"
    assert {problem["path"] for problem in said.error["errors"]} == {"colour", "coats"}


def test_answers_that_are_no_answers_are_refused_before_anything_is_called(homes: dict[str, Paddock]) -> None:
    for given in ("{", "3", "[3]"):
        assert homes["alone"]("call", "butler.paint", "--answers", given, "--json", code=6).error["code"] == (
            "invalid_params"
        )
    homes["served"]("call", "butler.paint", "--answers", "{}", "--detach", code=2)


def asking(paddock: Paddock, name: str = "butler.paint") -> str:
    """A call that nobody waits for, once its question is open."""
    call_id = paddock("call", name, "--detach").out.strip()
    deadline = time.monotonic() + PATIENCE
    while not paddock("call", "show", call_id, "--json").json["questions"]:
        assert time.monotonic() < deadline
    return call_id


def test_whoever_looks_at_a_call_without_a_terminal_leaves_its_question_open(homes: dict[str, Paddock]) -> None:
    served = homes["served"]
    call_id = asking(served)
    line = f"""paddock call answer {call_id} '{{"colour": "…"}}'"""

    shown = served("call", "show", call_id).err
    assert "butler.paint running (1 question waits)" in shown
    assert "butler asks: Which \\x1b[31mcolour?" in shown and line in shown
    assert "colour: Colour (red, blue)" in shown and "coats: coats (a whole number; may be left empty) [2]" in shown

    with served.start("call", "follow", call_id) as following:
        assert following.stderr is not None and following.stdout is not None
        assert any(line in said for said in following.stderr)  # it was shown, and the call goes on
        assert served("call", "answer", call_id, '{"colour": "green"}', "--json", code=6).error["errors"]
        assert "answered" in served("call", "answer", call_id, '{"colour": "blue"}').err
        assert json.load(following.stdout)["structuredContent"]["content"] == {"colour": "blue"}
    again = served("call", "answer", call_id, "false", "--json", code=3)
    assert again.error["code"] == "question.not_found"
    assert "asks" not in served("call", "follow", call_id).err  # what was answered is not shown again


def test_a_call_that_is_followed_takes_the_answers_of_the_command_line(homes: dict[str, Paddock]) -> None:
    served = homes["served"]

    said = served("call", "follow", asking(served), "--answers", '{"colour": "red"}')
    assert said.json["structuredContent"] == {"action": "accept", "content": {"colour": "red"}}

    page = asking(served, "butler.visit")
    assert "go to https://example.com/sign-in" in served("call", "show", page).err
    served("call", "answer", page, "false")
    assert served("call", "follow", page).json["structuredContent"] == {"action": "decline"}


def filled(schema: dict[str, Any], *lines: str) -> Any:
    """The answer of somebody who types these lines."""
    form = ask_question({"plugin": "x", "message": "?", "schema": schema})
    next(form)
    try:
        for line in lines:
            form.send(line)
    except StopIteration as done:
        return done.value.get("content")
    raise AssertionError("it wants more")


def test_every_kind_of_field_can_be_typed() -> None:
    fields = {
        "text": {"type": "string"},
        "short": {"type": "string", "maxLength": 3},
        "share": {"type": "number", "maximum": 1},
        "flag": {"type": "boolean", "default": True},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue", "wed"]}},
        "other": {"type": "object"},
    }
    typed_lines = ["y", " as it is ", "long", "ok", "2", "0.5", "", "large", "mon, Tue", '{"a": 1}']

    assert filled({"type": "object", "properties": fields}, *typed_lines) == {
        "text": " as it is ",
        "short": "ok",
        "share": 0.5,
        "flag": True,
        "size": "l",
        "days": ["mon", "tue"],
        "other": {"a": 1},
    }
    assert filled({"type": "object", "properties": {"a": {"type": "integer"}}}, "", "") == {}


@pytest.mark.slow
def test_what_a_call_asks_after_its_approval_is_declined_where_nobody_can_be_asked(
    paddock: Paddock, tmp_path: Path
) -> None:
    paddock.quickly("plugin", "install", butler(tmp_path / "butler", capabilities=["write:fs:config:/"]), "--yes")
    paddock.quickly("plugin", "enable", "butler")
    waits = paddock.quickly("call", "butler.paint", "--json", code=4).error["details"]["approval"]

    approved = paddock("approval", "approve", waits, "--yes", "--json").json

    assert approved["call"]["result"]["structuredContent"] == {"action": "decline"}
