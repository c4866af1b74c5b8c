"""The commands of the command line, as the tree that the program itself walks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from paddock.cli.command import PaddockCommand
from paddock.cli.commands.call.group import CallGroup
from paddock.cli.main import app


def commands(group: click.Group = app, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every group and every command below a group, with the words that reach it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, (*words, name)
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        if isinstance(command, CallGroup):
            yield (*words, name), command.default


def leaves() -> dict[tuple[str, ...], PaddockCommand]:
    """Every command that does something, by the words that reach it."""
    return {words: command for words, command in commands() if isinstance(command, PaddockCommand)}


def addressed(command_line: str) -> tuple[tuple[str, ...], PaddockCommand, list[str]] | None:
    """The words of a command line that name its command, that command, and the words for it; None if there is none."""
    program, *words = shlex.split(command_line)
    assert program == "paddock", command_line
    known = leaves()
    for length in range(len(words), 0, -1):
        if command := known.get(tuple(words[:length])):
            return tuple(words[:length]), command, words[length:]
    return None
