"""Rules parsed from files: each with an id, a text for people and its origin; all mistakes are reported at once.

The shipped rules are in `default.cedar`. A custom rule with the id of a shipped one replaces it, unless the shipped one
is `@fixed`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import Invalid, Problem
from paddock.core.schema_annotations import NonNegativeInt
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
#: Attributes of the entities in the schema, for guesses at what was meant.
_KNOWN_ATTRIBUTES: Final = (
    *("tenant", "scopes", "consents", "interactive", "may_call", "kind", "tier", "signature", "tags", "effects"),
    "flags",
    *("requires_approval", "family", "writes", "background", "dry_run", "project", "agent_path", "method", "granted"),
    *("call_effects", "underway_effects"),
)


class RuleFile(Struct, frozen=True):
    """The text of a rule file; `origin` is `shipped` or its path."""

    origin: str
    text: str


class RuleJson(TypedDict):
    """A policy rule."""

    id: str
    text: str
    effect: Literal["permit", "forbid"]
    origin: Annotated[str, "Its file; `shipped` if it is built in."]
    line: NonNegativeInt


class Rule(Struct, frozen=True):
    """One rule."""

    id: str
    text: str
    """Its meaning, for people."""
    effect: Literal["permit", "forbid"]
    source: str
    """Its source, in Cedar."""
    origin: str
    line: int
    public_text: str = ""
    fixed: bool = False
    wanted: ApprovalRequirement = DEFAULT_REQUIREMENT

    @property
    def where(self) -> str:
        """Its file and line."""
        return f"{self.origin}, line {self.line}"

    def to_json(self) -> RuleJson:
        """Serialize the rule, without its source."""
        return {"id": self.id, "text": self.text, "effect": self.effect, "origin": self.origin, "line": self.line}

    @property
    def asks(self) -> bool:
        """Whether it requires an approval, and neither permits nor forbids by itself."""
        return can_be_approved(parse_policies(self.source, 1)[0])

    @property
    def pin(self) -> str:
        """The id with a hash of the rule: a changed rule has another pin."""
        return f"{self.id}@{hashlib.sha256(self.source.encode()).hexdigest()}"


@dataclasses.dataclass(frozen=True)
class RuleSet:
    """Rules that were checked against the schema and each other: built by `checked_rules` alone."""

    rules: tuple[Rule, ...]
    vocabulary: Vocabulary

    @cached_property
    def by_id(self) -> Mapping[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def version(self) -> str:
        """Depends on the schema, the rules and the vocabulary; the order and location of rules do not matter."""
        return rules_version(self.rules, self.schema)

    @cached_property
    def schema(self) -> str:
        """The schema that the rules conform to."""
        return schema_text(self.vocabulary)

    @property
    def text(self) -> str:
        """All rules as one Cedar text."""
        return "\n".join(rule.source for rule in self.rules)


def rules_version(rules: Iterable[Rule], schema: str) -> str:
    """Compute the version of rules; the vocabulary is part of the schema."""
    digest = hashlib.sha256(b"paddock.policy.v1\0")
    for part in [schema, *sorted(rule.source for rule in rules)]:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return f"pol_{digest.hexdigest()[:32]}"


def shipped_rule_file() -> RuleFile:
    """Read the rules that every host has."""
    return RuleFile(SHIPPED_ORIGIN, DEFAULT_RULES.read_text("utf-8"))


def checked_rules(files: Sequence[RuleFile], vocabulary: Vocabulary) -> RuleSet:
    """Parse the rules of all files, and check them against the schema and each other.

    Raises:
        Invalid: with every mistake, each with file and line.
    """
    parsed: list[tuple[RuleSource, Rule]] = []
    problems: list[Problem] = []
    for file in files:
        for source, policy in _parse_rules(list(split_rules(file.origin, file.text)), problems):
            annotations, annotation_problems = read_annotations(source, policy)
            problems += annotation_problems
            parsed.append((source, _build_rule(source, policy, annotations)))
    problems += _schema_problems([source for source, _ in parsed], vocabulary)
    in_force = _resolve_overrides(parsed, problems)
    if problems:
        problems.sort(key=lambda problem: (problem.path != SHIPPED_ORIGIN, problem.path, problem.line or 0))
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise Invalid(f"the rules have {count}", problems, code="policy.invalid", action=Action.of("policy.check"))
    return RuleSet(tuple(in_force), vocabulary)


def _parse_rules(sources: list[RuleSource], problems: list[Problem]) -> list[tuple[RuleSource, Mapping[str, Any]]]:
    """Parse each readable rule to Cedar's JSON; add problems for the others."""
    try:
        return list(
            zip(sources, parse_policies("\n".join(source.text for source in sources), len(sources)), strict=True)
        )
    except ValueError:
        # Cedar reports no line and only the first error: parse each rule by itself.
        readable: list[tuple[RuleSource, Mapping[str, Any]]] = []
        for source in sources:
            try:
                readable.append((source, parse_policies(source.text, 1)[0]))
            except ValueError as error:
                problems.append(_syntax_problem(source, error))
        return readable


def _syntax_problem(source: RuleSource, error: ValueError) -> Problem:
    message = str(error)
    if message == "unexpected end of input":
        return rule_problem(source, "the rule does not end", "a ';', a '}' or a ')' is missing")
    problem = explain_cedar_error(source, message, {}, ())
    return replace(problem, hint=problem.hint or "see the rule's punctuation")


def _build_rule(source: RuleSource, policy: Mapping[str, Any], annotations: RuleAnnotations) -> Rule:
    return Rule(
        annotations.id,
        annotations.text,
        cast("Literal['permit', 'forbid']", policy["effect"]),
        source.text,
        source.file,
        source.line,
        annotations.public_text,
        annotations.fixed,
        annotations.wanted,
    )


def _schema_problems(sources: Sequence[RuleSource], vocabulary: Vocabulary) -> list[Problem]:
    errors_by_rule: dict[str, list[str]] = {}
    for rule, error in validation_errors("\n".join(source.text for source in sources), schema_text(vocabulary)):
        errors_by_rule.setdefault(rule, []).append(error)
    problems: list[Problem] = []
    for index, source in enumerate(sources):
        errors = errors_by_rule.pop(cedar_policy_id(index), [])
        primary = [error for error in errors if not is_secondary_error(error)] or errors
        problems += dict.fromkeys(
            explain_cedar_error(source, error, vocabulary.words, _KNOWN_ATTRIBUTES) for error in primary
        )
    # No error of Cedar may be lost, even if it names no rule of ours.
    problems += [Problem("", error, "", "policy.rule") for errors in errors_by_rule.values() for error in errors]
    return problems


def _resolve_overrides(parsed: Sequence[tuple[RuleSource, Rule]], problems: list[Problem]) -> list[Rule]:
    """Return the effective rules: custom ones replace shipped ones of the same id."""
    shipped: dict[str, Rule] = {}
    custom: dict[str, Rule] = {}
    for source, rule in parsed:
        if not rule.id:
            continue  # reported already
        same_origin = shipped if rule.origin == SHIPPED_ORIGIN else custom
        first = same_origin.get(rule.id)
        if first is not None:
            message = f"there is a rule {rule.id!r} already: {first.where}"
            problems.append(rule_problem(source, message, "give it another @id"))
        elif same_origin is custom and rule.id in shipped and shipped[rule.id].fixed:
            hint = "it cannot be replaced; give yours another @id"
            problems.append(rule_problem(source, f"the shipped rule {rule.id!r} is fixed", hint, at="@id"))
        elif same_origin is custom and rule.fixed:
            problems.append(rule_problem(source, "only shipped rules are @fixed", "leave it out", at="@fixed"))
        else:
            same_origin[rule.id] = rule
    return [custom.get(name, rule) for name, rule in shipped.items()] + [
        rule for name, rule in custom.items() if name not in shipped
    ]
