"""A command and its variables as people read them before they agree: no word of it is left out. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from paddock.manifest.environment_command import environment_program

_KEPT = re.compile(r"\$\{user_config\.([^}]+)\}")


def command_in_words(command: Sequence[str]) -> tuple[str, str]:
    """What stands before the words of a command, and the words."""
    program = environment_program(command)
    if program is None:
        return "Runs the command: ", _joined(command)
    if len(command) == 1:
        return "Runs the program ", f"{program} of its package"
    return "Runs the program ", f"{program} of its package, with: {_joined(command[1:])}"


def variables_in_words(env: Mapping[str, str]) -> str:
    return " ".join(f"{name}={_word(value)}" for name, value in env.items())


def _joined(words: Iterable[str]) -> str:
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    """A word as a shell would take it. What is kept on this machine is named, unlike anything a word can say itself.

    Parentheses and angle brackets stand unquoted nowhere else, so that two different words never read alike.
    """
    pieces = _KEPT.split(word)  # what stands between the references, and their names in turn
    if len(pieces) == 1:
        return shlex.quote(word)
    named = [f"{shlex.quote(name)} (kept on this machine)" for name in pieces[1::2]]
    if pieces[0::2] == ["", ""]:
        return named[0]
    between = [shlex.quote(piece) if piece else "" for piece in pieces[0::2]]
    return between[0] + "".join(f"<{name}>{piece}" for name, piece in zip(named, between[1:], strict=True))
