"""Taking a file of rules apart into single rules, so that each mistake can be told with its line. Pure.

Cedar names neither file nor line in what it complains about. A rule ends with the first `;` outside of text and
comments; that is all of the language that has to be known here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paddock.core.errors import Problem

# A comment, a text, the end of a rule, or anything else that is not white space.
_TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"?|;|[^\s";/]+|/', re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`|invalid variable: (\w+)")
_ENUMERATED = re.compile(r'entity `(\w+)::"(.*?)"` is of an enumerated entity type')
_ATTRIBUTE = re.compile(r"attribute `(\w+)` (on entity type `(\w+)`|in context for Action::\"\w+\") not found")
_NAMED = re.compile(r"unrecognized (action|entity type) `(.+?)`")
_OPTIONAL = re.compile(r"optional attribute `(\w+)`")
_POLICY = re.compile(r"^for policy `policy\d+`[,:] ")
# Follows from another complaint about the same rule, or says less than one of ours.
_NO_ACTION: Final = "unable to find an applicable action"
_ACTIONS: Final = ("anyCall", "call", "callUnattended", "propose", "use")


@dataclass(frozen=True, slots=True)
class RuleSource:
    """One rule as it stands in its file, without the comments before it."""

    file: str
    line: int
    text: str


def split_rules(file: str, text: str) -> Iterator[RuleSource]:
    """The rules of a file, in order; whatever stands behind the last `;` is one too."""
    start: int | None = None
    end, line, counted = 0, 1, 0
    for token in _TOKEN.finditer(text):
        if token[0].startswith("//"):
            continue
        if start is None:
            start = token.start()
            # Only what came since the last rule: from the beginning each time it would take the square.
            line += text.count("\n", counted, start)
            counted = start
        end = token.end()
        if token[0] == ";":
            yield RuleSource(file, line, text[start:end])
            start = None
    if start is not None:
        yield RuleSource(file, line, text[start:end])


def explain_cedar_error(
    piece: RuleSource, said: str, words: dict[str, tuple[str, ...]], attributes: Sequence[str]
) -> Problem:
    """What Cedar says about a rule, with the line it is about and what was probably meant.

    Args:
        piece: The rule.
        said: Cedar's own words.
        words: The closed lists, by the name that rules use for each.
        attributes: Every attribute that anything has.
    """
    said = _POLICY.sub("", said)
    if found := _ENUMERATED.search(said):
        known = words.get(found[1], ())
        message = f"there is no {found[1]} {found[2]!r}"
        hint = _suggest(found[2], known) or f"one of: {', '.join(known)}"
        if found[1] == "Tag":
            hint += "; tags of your own go into the setting policy.tags"
        return _problem_at(piece, f'{found[1]}::"{found[2]}"', message, hint)
    if found := _ATTRIBUTE.search(said):
        # The same for each action that the rule may be about: told once.
        owner = found[3] or "the context"
        return _problem_at(piece, found[1], f"{owner} has no attribute {found[1]!r}", _suggest(found[1], attributes))
    if found := _NAMED.search(said):
        return _unknown_name_problem(piece, found[1], found[2], words)
    if found := _OPTIONAL.search(said):
        hint = f"write 'context has {found[1]} && …'"
        return _problem_at(piece, found[1], f"{found[1]!r} is not always there", hint)
    if _NO_ACTION in said:
        return _problem_at(piece, "", "it can never apply: no action goes with such a principal and resource", "")
    quoted = _QUOTED.search(said)
    return _problem_at(piece, (quoted[1] or quoted[2]) if quoted else "", said, "")


def _unknown_name_problem(piece: RuleSource, what: str, name: str, words: dict[str, tuple[str, ...]]) -> Problem:
    if what == "action":
        short = name.removeprefix('Action::"').removesuffix('"')
        return _problem_at(piece, name, f"there is no action {short!r}", _suggest(short, _ACTIONS))
    types = (*words, "Adapter", "Agent", "ApiKey", "Callable", "Capability", "Group", "Plugin", "Role", "User")
    return _problem_at(piece, name, f"there is no entity type {name!r}", _suggest(name, types))


def is_secondary_error(said: str) -> bool:
    """Whether a complaint is worth telling only where there is no other about the same rule."""
    return _NO_ACTION in said


def _problem_at(piece: RuleSource, token: str, message: str, hint: str) -> Problem:
    before = piece.text.find(token) if token else -1
    line = piece.line + piece.text.count("\n", 0, max(before, 0))
    return Problem(piece.file, message, hint, "policy.rule", line)


def _suggest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def rule_problem(piece: RuleSource, message: str, hint: str = "", *, at: str = "") -> Problem:
    """A mistake of a rule that we found ourselves; `at` is the part of its text that is wrong."""
    return _problem_at(piece, at, message, hint)
