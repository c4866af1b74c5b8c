"""A command and its variables as people read them before they agree: no word of it is left out. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

ENVIRONMENT_PREFIX = "environment:"
LOCK_FILES = ("requirements.lock", "package-lock.json")
_PROGRAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def environment_program(command: Sequence[str]) -> str | None:
    """The program of the environment that a command names; None for any other command."""
    return (
        command[0].removeprefix(ENVIRONMENT_PREFIX) if command and command[0].startswith(ENVIRONMENT_PREFIX) else None
    )


def program_name_problem(program: str) -> str | None:
    """What is wrong with such a name; None when nothing is."""
    if _PROGRAM_NAME.fullmatch(program):
        return None
    return "is not the name of a program: letters, digits, '.', '_' and '-' follow 'environment:'"


_CONFIG_REFERENCE = re.compile(r"\$\{user_config\.([^}]+)\}")


def command_text(command: Sequence[str]) -> tuple[str, str]:
    """What stands before the words of a command, and the words."""
    program = environment_program(command)
    if program is None:
        return "Runs the command: ", _join_words(command)
    if len(command) == 1:
        return "Runs the program ", f"{program} of its package"
    return "Runs the program ", f"{program} of its package, with: {_join_words(command[1:])}"


def variables_text(env: Mapping[str, str]) -> str:
    return " ".join(f"{name}={_quote_word(value)}" for name, value in env.items())


def _join_words(words: Iterable[str]) -> str:
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    """A word as a shell would take it. What is kept on this machine is named, unlike anything a word can say itself.

    Parentheses and angle brackets stand unquoted nowhere else, so that two different words never read alike.
    """
    pieces = _CONFIG_REFERENCE.split(word)  # what stands between the references, and their names in turn
    if len(pieces) == 1:
        return shlex.quote(word)
    named = [f"{shlex.quote(name)} (kept on this machine)" for name in pieces[1::2]]
    if pieces[0::2] == ["", ""]:
        return named[0]
    between = [shlex.quote(piece) if piece else "" for piece in pieces[0::2]]
    return between[0] + "".join(f"<{name}>{piece}" for name, piece in zip(named, between[1:], strict=True))
