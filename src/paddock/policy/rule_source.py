"""Splits a rule file into single rules, and maps Cedar's errors to lines and hints. Pure.

Cedar's errors name neither file nor line. A rule ends with the first `;` outside of strings and comments; nothing else
of the grammar has to be known here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from paddock.core.errors import Problem

# A comment, a string, the end of a rule, or anything else that is not white space.
_TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"?|;|[^\s";/]+|/', re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`|invalid variable: (\w+)")
_ENUMERATED = re.compile(r'entity `(\w+)::"(.*?)"` is of an enumerated entity type')
_ATTRIBUTE = re.compile(r"attribute `(\w+)` (on entity type `(\w+)`|in context for Action::\"\w+\") not found")
_NAMED = re.compile(r"unrecognized (action|entity type) `(.+?)`")
_OPTIONAL = re.compile(r"optional attribute `(\w+)`")
_POLICY = re.compile(r"^for policy `policy\d+`[,:] ")
# Follows from another error in the same rule, or says less than one of ours.
_NO_ACTION: Final = "unable to find an applicable action"
_ACTIONS: Final = ("anyCall", "call", "callUnattended", "propose", "use")


class RuleSource(Struct, frozen=True):
    """The source of one rule, without the comments before it."""

    file: str
    line: int
    text: str


def split_rules(file: str, text: str) -> Iterator[RuleSource]:
    """Yield the rules of a file, in order; text after the last `;` is one too."""
    start: int | None = None
    end, line, counted = 0, 1, 0
    for token in _TOKEN.finditer(text):
        if token[0].startswith("//"):
            continue
        if start is None:
            start = token.start()
            # Count only since the last rule: counting from the beginning each time would be quadratic.
            line += text.count("\n", counted, start)
            counted = start
        end = token.end()
        if token[0] == ";":
            yield RuleSource(file, line, text[start:end])
            start = None
    if start is not None:
        yield RuleSource(file, line, text[start:end])


def explain_cedar_error(
    source: RuleSource, cedar_message: str, words: dict[str, tuple[str, ...]], attributes: Sequence[str]
) -> Problem:
    """Convert an error of Cedar to a problem with its line and a guess at what was meant.

    Args:
        source: The rule.
        cedar_message: Cedar's message.
        words: The closed vocabularies, by the name that rules use for each.
        attributes: Every attribute of any entity.
    """
    cedar_message = _POLICY.sub("", cedar_message)
    if found := _ENUMERATED.search(cedar_message):
        known = words.get(found[1], ())
        message = f"there is no {found[1]} {found[2]!r}"
        hint = _suggest(found[2], known) or f"one of: {', '.join(known)}"
        if found[1] == "Tag":
            hint += "; tags of your own go into the setting policy.tags"
        return rule_problem(source, message, hint, at=f'{found[1]}::"{found[2]}"')
    if found := _ATTRIBUTE.search(cedar_message):
        # Cedar repeats this for each action that the rule may be about; callers drop the duplicates.
        owner = found[3] or "the context"
        hint = _suggest(found[1], attributes)
        if found[3] is None and found[1] in attributes:
            hint = 'only calls have it: restrict the rule to them, with action in Action::"anyCall"'
        return rule_problem(source, f"{owner} has no attribute {found[1]!r}", hint, at=found[1])
    if found := _NAMED.search(cedar_message):
        return _unknown_name_problem(source, found[1], found[2], words)
    if found := _OPTIONAL.search(cedar_message):
        hint = f"write 'context has {found[1]} && …'"
        return rule_problem(source, f"{found[1]!r} is not always there", hint, at=found[1])
    if _NO_ACTION in cedar_message:
        return rule_problem(source, "it can never apply: no action goes with such a principal and resource")
    quoted = _QUOTED.search(cedar_message)
    return rule_problem(source, cedar_message, at=(quoted[1] or quoted[2]) if quoted else "")


def _unknown_name_problem(source: RuleSource, kind: str, name: str, words: dict[str, tuple[str, ...]]) -> Problem:
    if kind == "action":
        short = name.removeprefix('Action::"').removesuffix('"')
        return rule_problem(source, f"there is no action {short!r}", _suggest(short, _ACTIONS), at=name)
    types = (*words, "Adapter", "Agent", "ApiKey", "Callable", "Capability", "Group", "Plugin", "Role", "User")
    return rule_problem(source, f"there is no entity type {name!r}", _suggest(name, types), at=name)


def is_secondary_error(message: str) -> bool:
    """Return whether an error is worth reporting only if the rule has no other."""
    return _NO_ACTION in message


def rule_problem(source: RuleSource, message: str, hint: str = "", *, at: str = "") -> Problem:
    """Build a problem of a rule; `at` is the wrong part of its text."""
    position = source.text.find(at) if at else -1
    line = source.line + source.text.count("\n", 0, max(position, 0))
    return Problem(source.file, message, hint, "policy.rule", line)


def _suggest(word: str, candidates: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, candidates, n=1)
    return f"did you mean {close[0]!r}?" if close else ""
