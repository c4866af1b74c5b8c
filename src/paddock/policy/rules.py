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
from paddock.policy.annotations import (
    DEFAULT_REQUIREMENT,
    ApprovalRequirement,
    RuleAnnotations,
    can_be_approved,
    read_annotations,
)
from paddock.policy.cedar import cedar_policy_id, parse_policies, validation_errors
from paddock.policy.rule_source import RuleSource, explain_cedar_error, is_secondary_error, rule_problem, split_rules
from paddock.policy.schema import Vocabulary, schema_text

SHIPPED_ORIGIN: Final = "shipped"
DEFAULT_RULES: Final = Path(__file__).with_name("default.cedar")
#: Attributes of whatever rules speak about, for guesses at what was meant.
_KNOWN_ATTRIBUTES: Final = (
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
    wanted: ApprovalRequirement = DEFAULT_REQUIREMENT

    @property
    def where(self) -> str:
        """Where it stands."""
        return f"{self.origin}, line {self.line}"

    @property
    def asks(self) -> bool:
        """Whether it has a person asked, and neither allows nor forbids by itself."""
        return can_be_approved(parse_policies(self.source, 1)[0])

    @property
    def pin(self) -> str:
        """The id with a hash of the rule: a changed rule has another one."""
        return f"{self.id}@{hashlib.sha256(self.source.encode()).hexdigest()}"


@dataclass(frozen=True)
class RuleSet:
    """Rules that fit the schema and each other: made by `checked_rules` alone."""

    rules: tuple[Rule, ...]
    vocabulary: Vocabulary

    @cached_property
    def by_id(self) -> Mapping[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def version(self) -> str:
        """Of the schema, the rules and the words they may use; the order and place of rules do not matter."""
        return rules_version(self.rules, self.schema)

    @cached_property
    def schema(self) -> str:
        """What the rules fit."""
        return schema_text(self.vocabulary)

    @property
    def text(self) -> str:
        """All rules as one text that Cedar reads."""
        return "\n".join(rule.source for rule in self.rules)


def rules_version(rules: Iterable[Rule], schema: str) -> str:
    """The name of a version; the words that rules may use are part of the schema."""
    digest = hashlib.sha256(b"paddock.policy.v1\0")
    for part in [schema, *sorted(rule.source for rule in rules)]:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return f"pol_{digest.hexdigest()[:32]}"


def shipped_rule_file() -> RuleFile:
    """The rules that every host has."""
    return RuleFile(SHIPPED_ORIGIN, DEFAULT_RULES.read_text("utf-8"))


def checked_rules(files: Sequence[RuleFile], vocabulary: Vocabulary) -> RuleSet:
    """The rules of all files, checked against the schema and each other.

    Raises:
        Invalid: with every mistake, each with its file and line.
    """
    found: list[tuple[RuleSource, Rule]] = []
    problems: list[Problem] = []
    for file in files:
        for piece, policy in _parse_rules(list(split_rules(file.origin, file.text)), problems):
            said, wrong = read_annotations(piece, policy)
            problems += wrong
            found.append((piece, _build_rule(piece, policy, said)))
    problems += _schema_problems([piece for piece, _ in found], vocabulary)
    in_force = _resolve_overrides(found, problems)
    if problems:
        problems.sort(key=lambda problem: (problem.path != SHIPPED_ORIGIN, problem.path, problem.line or 0))
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise Invalid(f"the rules have {count}", problems, code="policy.invalid", hint="see: paddock policy check")
    return RuleSet(tuple(in_force), vocabulary)


def _parse_rules(found: list[RuleSource], problems: list[Problem]) -> list[tuple[RuleSource, Mapping[str, Any]]]:
    """Each rule that can be read, as Cedar's JSON."""
    try:
        return list(zip(found, parse_policies("\n".join(piece.text for piece in found), len(found)), strict=True))
    except ValueError:
        # Cedar names no line, and only the first mistake: ask about each rule by itself.
        readable: list[tuple[RuleSource, Mapping[str, Any]]] = []
        for piece in found:
            try:
                readable.append((piece, parse_policies(piece.text, 1)[0]))
            except ValueError as error:
                problems.append(_syntax_problem(piece, error))
        return readable


def _syntax_problem(piece: RuleSource, error: ValueError) -> Problem:
    said = str(error)
    if said == "unexpected end of input":
        return rule_problem(piece, "the rule does not end", "a ';', a '}' or a ')' is missing")
    problem = explain_cedar_error(piece, said, {}, ())
    return Problem(
        problem.path, problem.message, problem.hint or "see the rule's punctuation", problem.code, problem.line
    )


def _build_rule(piece: RuleSource, policy: Mapping[str, Any], said: RuleAnnotations) -> Rule:
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


def _schema_problems(found: Sequence[RuleSource], vocabulary: Vocabulary) -> list[Problem]:
    by_rule: dict[str, list[str]] = {}
    for rule, words in validation_errors("\n".join(piece.text for piece in found), schema_text(vocabulary)):
        by_rule.setdefault(rule, []).append(words)
    problems: list[Problem] = []
    for index, piece in enumerate(found):
        said = by_rule.pop(cedar_policy_id(index), [])
        telling = [words for words in said if not is_secondary_error(words)] or said
        problems += dict.fromkeys(
            explain_cedar_error(piece, words, vocabulary.words, _KNOWN_ATTRIBUTES) for words in telling
        )
    # Nothing that Cedar says may be lost, even where it names no rule of ours.
    problems += [Problem("", words, "", "policy.rule") for said in by_rule.values() for words in said]
    return problems


def _resolve_overrides(found: Sequence[tuple[RuleSource, Rule]], problems: list[Problem]) -> list[Rule]:
    """The rules that hold: one's own instead of the shipped of the same id."""
    shipped: dict[str, Rule] = {}
    own: dict[str, Rule] = {}
    for piece, rule in found:
        if not rule.id:
            continue  # told already
        among = shipped if rule.origin == SHIPPED_ORIGIN else own
        first = among.get(rule.id)
        if first is not None:
            words = f"there is a rule {rule.id!r} already: {first.where}"
            problems.append(rule_problem(piece, words, "give it another @id"))
        elif among is own and rule.id in shipped and shipped[rule.id].fixed:
            hint = "it cannot be replaced; give yours another @id"
            problems.append(rule_problem(piece, f"the shipped rule {rule.id!r} is fixed", hint, at="@id"))
        elif among is own and rule.fixed:
            problems.append(rule_problem(piece, "only shipped rules are @fixed", "leave it out", at="@fixed"))
        else:
            among[rule.id] = rule
    return [own.get(name, rule) for name, rule in shipped.items()] + [
        rule for name, rule in own.items() if name not in shipped
    ]
