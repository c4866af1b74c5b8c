"""Shows a command and its variables in full, for people who decide about it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

ENVIRONMENT_PREFIX = "environment:"
ENVIRONMENT_PYTHON = (
    "python"  # of such a command: the interpreter of a Python environment, for a program of the package
)
LOCK_FILES = ("requirements.lock", "package-lock.json")
_PROGRAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def environment_program(command: Sequence[str]) -> str | None:
    """Return the program of a command that runs in the plugin's environment; None for other commands."""
    return (
        command[0].removeprefix(ENVIRONMENT_PREFIX) if command and command[0].startswith(ENVIRONMENT_PREFIX) else None
    )


def program_name_problem(program: str) -> str | None:
    """Return what is wrong with such a program name; None if nothing is."""
    if _PROGRAM_NAME.fullmatch(program):
        return None
    return "is not the name of a program: letters, digits, '.', '_' and '-' follow 'environment:'"


_CONFIG_REFERENCE = re.compile(r"\$\{user_config\.([^}]+)\}")


def command_text(command: Sequence[str]) -> tuple[str, str]:
    """Return a label and the text of a command."""
    program = environment_program(command)
    if program is None:
        return "Runs the command: ", _join_words(command)
    if program == ENVIRONMENT_PYTHON:
        return "Runs the command, with packages of its own: ", _join_words([program, *command[1:]])
    if len(command) == 1:
        return "Runs the program ", f"{program} of its package"
    return "Runs the program ", f"{program} of its package, with: {_join_words(command[1:])}"


def variables_text(env: Mapping[str, str]) -> str:
    return " ".join(_variable_text(name, value) for name, value in env.items())


def _variable_text(name: str, value: str) -> str:
    """A variable whose value is the configuration of the same name is not named twice."""
    pieces = _CONFIG_REFERENCE.split(value)
    return f"{name} (kept on this machine)" if pieces == ["", name, ""] else f"{name}={_quote_word(value)}"


def _join_words(words: Iterable[str]) -> str:
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    """Quote a word for the shell. References to configuration are marked, unlike anything a word can spell itself.

    Parentheses and angle brackets appear unquoted nowhere else, so that two different words never read alike.
    """
    pieces = _CONFIG_REFERENCE.split(word)  # literal text and reference names, alternating
    if len(pieces) == 1:
        return shlex.quote(word)
    references = [f"{shlex.quote(name)} (kept on this machine)" for name in pieces[1::2]]
    if pieces[0::2] == ["", ""]:
        return references[0]
    literals = [shlex.quote(piece) if piece else "" for piece in pieces[0::2]]
    return literals[0] + "".join(f"<{name}>{piece}" for name, piece in zip(references, literals[1:], strict=True))
