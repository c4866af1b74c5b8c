"""Actions on the command line: each is a command that exists and takes what it is given."""

from __future__ import annotations

import re
import shlex
from typing import Any

from documented.command_tree import addressed
from fixtures.all_cases import all_cases
from paddock.cli.output.action_text import COMMANDS, command_line
from paddock.core.action import SENTENCES, Action, ActionKind, action_kinds, template_arguments


def unknown_words(command_line: str) -> list[str]:
    """What the command tree does not know of a command line, and the arguments that it misses."""
    found = addressed(command_line[command_line.index("paddock ") :])
    if found is None:
        return shlex.split(command_line)
    names, command, words = found
    context = command.context_class(command, info_name=names[-1])
    given, rest, _ = command.make_parser(context).parse_args(list(words))
    missing = [one.name for one in command.params if one.required and given.get(one.name) is None]
    return [*rest, *missing]


def every_argument(kind: ActionKind) -> Action:
    return Action(kind, {name: f"{name}'s" for name in template_arguments(SENTENCES[kind])})


def only_the_needed(kind: ActionKind) -> Action:
    return Action(kind, {name: "x" for name, needed in template_arguments(SENTENCES[kind]).items() if needed})


@all_cases("kind", action_kinds())
def test_every_action_is_a_command_that_parses(kind: ActionKind) -> None:
    for action in (every_argument(kind), only_the_needed(kind)):
        assert unknown_words(command_line(action)) == [], command_line(action)


@all_cases("kind", action_kinds())
def test_a_command_needs_no_argument_that_the_action_lacks(kind: ActionKind) -> None:
    declared, used = template_arguments(SENTENCES[kind]), template_arguments(COMMANDS[kind])
    assert used.keys() <= declared.keys()
    assert [name for name, needed in used.items() if needed and not declared[name]] == []


def test_arguments_are_quoted_for_the_shell() -> None:
    line = command_line(Action.of("apikey.add", owner="ann; rm -rf ~"))
    assert re.fullmatch(r"paddock apikey \w+ 'ann; rm -rf ~'", line)


def test_a_list_becomes_one_option_each() -> None:
    line: Any = command_line(Action.of("plugin.enable", plugin="notes", grants=("net:*", "exec:git")))
    assert line == "paddock plugin enable notes --grant 'net:*' --grant exec:git"
