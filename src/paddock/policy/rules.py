"""Rules read from files: each with an id, a text for people and where it came from; all mistakes told at once.

The shipped rules stand in `default.cedar`. A rule of one's own with the id of a shipped one takes its place, except
where the shipped one is `@fixed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, cast

from paddock.core.errors import Invalid, Problem
from paddock.policy.annotations import ORDINARY, Annotations, Wanted, asks, read_annotations
from paddock.policy.cedar import misfits, numbered, parsed
from paddock.policy.rule_text import Piece, complaint, consequence, mistake, pieces
from paddock.policy.schema import schema_text
from paddock.policy.vocabulary import Vocabulary

SHIPPED: Final = "shipped"
DEFAULT_RULES: Final = Path(__file__).with_name("default.cedar")
#: Attributes of whatever rules speak about, for guesses at what was meant.
_ATTRIBUTES: Final = (
    *("tenant", "scopes", "consents", "interactive", "may_call", "kind", "tier", "signature", "tags", "effects"),
    "flags",
    *("requires_approval", "family", "writes", "background", "dry_run", "project", "agent_path", "method", "granted"),
    *("call_effects", "underway_effects"),
)


@dataclass(frozen=True, slots=True)
class RuleFile:
    """Rules as they were read; `origin` is `shipped` or where the file stands."""

    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that is in force."""

    id: str
    text: str
    """What it means, for people."""
    effect: Literal["permit", "forbid"]
    source: str
    """The rule itself, in Cedar."""
    origin: str
    line: int
    public_text: str = ""
    fixed: bool = False
    wanted: Wanted = ORDINARY

    @property
    def where(self) -> str:
        """Where it stands."""
        return f"{self.origin}, line {self.line}"

    @property
    def asks(self) -> bool:
        """Whether it has a person asked, and neither allows nor forbids by itself."""
        return asks(parsed(self.source, 1)[0])

    @property
    def pin(self) -> str:
        """The id with a hash of the rule: a changed rule has another one."""
        return f"{self.id}@{hashlib.sha256(self.source.encode()).hexdigest()}"


@dataclass(frozen=True)
class Rules:
    """Rules that fit the schema and each other: made by `checked_rules` alone."""

    rules: tuple[Rule, ...]
    vocabulary: Vocabulary

    @cached_property
    def by_id(self) -> Mapping[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def version(self) -> str:
        """Of the schema, the rules and the words they may use; the order and place of rules do not matter."""
        return version_of(self.rules, self.schema)

    @cached_property
    def schema(self) -> str:
        """What the rules fit."""
        return schema_text(self.vocabulary)

    @property
    def text(self) -> str:
        """All rules as one text that Cedar reads."""
        return "\n".join(rule.source for rule in self.rules)


def version_of(rules: Iterable[Rule], schema: str) -> str:
    """The name of a version; the words that rules may use are part of the schema."""
    digest = hashlib.sha256(b"paddock.policy.v1\0")
    for part in [schema, *sorted(rule.source for rule in rules)]:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return f"pol_{digest.hexdigest()[:32]}"


def shipped_file() -> RuleFile:
    """The rules that every host has."""
    return RuleFile(SHIPPED, DEFAULT_RULES.read_text("utf-8"))


def checked_rules(files: Sequence[RuleFile], vocabulary: Vocabulary) -> Rules:
    """The rules of all files, checked against the schema and each other.

    Raises:
        Invalid: with every mistake, each with its file and line.
    """
    found: list[tuple[Piece, Rule]] = []
    problems: list[Problem] = []
    for file in files:
        for piece, policy in _parsed(list(pieces(file.origin, file.text)), problems):
            said, wrong = read_annotations(piece, policy)
            problems += wrong
            found.append((piece, _rule(piece, policy, said)))
    problems += _schema_mistakes([piece for piece, _ in found], vocabulary)
    in_force = _in_force(found, problems)
    if problems:
        problems.sort(key=lambda problem: (problem.path != SHIPPED, problem.path, problem.line or 0))
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise Invalid(f"the rules have {count}", problems, code="policy.invalid", hint="see: paddock policy check")
    return Rules(tuple(in_force), vocabulary)


def _parsed(found: list[Piece], problems: list[Problem]) -> list[tuple[Piece, Mapping[str, Any]]]:
    """Each rule that can be read, as Cedar's JSON."""
    try:
        return list(zip(found, parsed("\n".join(piece.text for piece in found), len(found)), strict=True))
    except ValueError:
        # Cedar names no line, and only the first mistake: ask about each rule by itself.
        readable: list[tuple[Piece, Mapping[str, Any]]] = []
        for piece in found:
            try:
                readable.append((piece, parsed(piece.text, 1)[0]))
            except ValueError as error:
                problems.append(_unreadable(piece, error))
        return readable


def _unreadable(piece: Piece, error: ValueError) -> Problem:
    said = str(error)
    if said == "unexpected end of input":
        return mistake(piece, "the rule does not end", "a ';', a '}' or a ')' is missing")
    problem = complaint(piece, said, {}, ())
    return Problem(
        problem.path, problem.message, problem.hint or "see the rule's punctuation", problem.code, problem.line
    )


def _rule(piece: Piece, policy: Mapping[str, Any], said: Annotations) -> Rule:
    return Rule(
        said.id,
        said.text,
        cast("Literal['permit', 'forbid']", policy["effect"]),
        piece.text,
        piece.file,
        piece.line,
        said.public_text,
        said.fixed,
        said.wanted,
    )


def _schema_mistakes(found: Sequence[Piece], vocabulary: Vocabulary) -> list[Problem]:
    by_rule: dict[str, list[str]] = {}
    for rule, words in misfits("\n".join(piece.text for piece in found), schema_text(vocabulary)):
        by_rule.setdefault(rule, []).append(words)
    problems: list[Problem] = []
    for index, piece in enumerate(found):
        said = by_rule.pop(numbered(index), [])
        telling = [words for words in said if not consequence(words)] or said
        problems += dict.fromkeys(complaint(piece, words, vocabulary.words, _ATTRIBUTES) for words in telling)
    # Nothing that Cedar says may be lost, even where it names no rule of ours.
    problems += [Problem("", words, "", "policy.rule") for said in by_rule.values() for words in said]
    return problems


def _in_force(found: Sequence[tuple[Piece, Rule]], problems: list[Problem]) -> list[Rule]:
    """The rules that hold: one's own instead of the shipped of the same id."""
    shipped: dict[str, Rule] = {}
    own: dict[str, Rule] = {}
    for piece, rule in found:
        if not rule.id:
            continue  # told already
        among = shipped if rule.origin == SHIPPED else own
        first = among.get(rule.id)
        if first is not None:
            words = f"there is a rule {rule.id!r} already: {first.where}"
            problems.append(mistake(piece, words, "give it another @id"))
        elif among is own and rule.id in shipped and shipped[rule.id].fixed:
            hint = "it cannot be replaced; give yours another @id"
            problems.append(mistake(piece, f"the shipped rule {rule.id!r} is fixed", hint, at="@id"))
        elif among is own and rule.fixed:
            problems.append(mistake(piece, "only shipped rules are @fixed", "leave it out", at="@fixed"))
        else:
            among[rule.id] = rule
    return [own.get(name, rule) for name, rule in shipped.items()] + [
        rule for name, rule in own.items() if name not in shipped
    ]
