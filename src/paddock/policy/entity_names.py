"""Finds names in rules that do not exist here: such a rule fits the schema but never applies. Pure.

People, groups, roles, plugins and callables come and go, so an unknown name is no error; but it may be a typo.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.policy.cedar import parse_policies
from paddock.policy.rule_source import RuleSource, rule_problem
from paddock.policy.rules import SHIPPED_ORIGIN, Rule, RuleSet, checked_rules, shipped_rule_file

#: The prefix of ids, for entity types whose ids have one.
_ID_PREFIXES: Final = {"User": "user", "ApiKey": "key"}


class KnownEntities(Struct, frozen=True):
    """The names that rules of one home can refer to.

    Attributes:
        by_type: The ids of each entity type; types that are absent are not checked.
        undeclared: Plugins whose callables are unknown until they run: each of their names counts as known.
    """

    by_type: Mapping[str, frozenset[str]]
    undeclared: frozenset[str] = frozenset()

    def has(self, type_: str, id_: str) -> bool:
        if type_ == "Callable" and any(id_.startswith(f"{plugin}.") for plugin in self.undeclared):
            return True
        return type_ not in self.by_type or id_ in self.by_type[type_]


def find_unknown_entities(rules: RuleSet, known: KnownEntities) -> list[Problem]:
    """Return a problem, with file and line, for each unknown name in custom rules.

    Names in shipped rules count as known: those rules are written for entities that may come later.
    """
    shipped = {
        name
        for rule in checked_rules([shipped_rule_file()], rules.vocabulary).rules
        for name in entities_named_in(rule)
    }
    problems: list[Problem] = []
    for rule in rules.rules:
        if rule.origin == SHIPPED_ORIGIN:
            continue
        for type_, id_ in dict.fromkeys(entities_named_in(rule)):
            if (type_, id_) not in shipped and not known.has(type_, id_):
                problems.append(_unknown_entity_problem(rule, type_, id_, known.by_type[type_]))
    return problems


def entities_named_in(rule: Rule) -> Iterator[tuple[str, str]]:
    """Yield every entity that a rule names, as type and id, in order."""
    policy = parse_policies(rule.source, 1)[0]
    yield from _walk_entities({part: policy[part] for part in ("principal", "resource", "conditions")})


def _walk_entities(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the entities in a part of Cedar's JSON."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        type_, id_ = fields.get("type"), fields.get("id")
        # A record literal in a rule never has plain strings as field values here: those are wrapped in a `Value`.
        if isinstance(type_, str) and isinstance(id_, str):
            yield type_, id_
            return
        parts: Iterable[Any] = fields.values()
    else:
        parts = cast("list[Any]", value) if isinstance(value, list) else ()
    for part in parts:
        yield from _walk_entities(part)


def _creating_action(type_: str, id_: str) -> Action | None:
    match type_:
        case "Group":
            return Action.of("group.add", group=id_)
        case "Role":
            return Action.of("user.role.add", role=id_)
        case _:
            return None


def _unknown_entity_problem(rule: Rule, type_: str, id_: str, known: frozenset[str]) -> Problem:
    problem = rule_problem(
        RuleSource(rule.origin, rule.line, rule.source),
        f"the rule {rule.id} names {type_} {printable(id_, 100)!r}, which does not exist in this home",
        _suggest(type_, id_, known),
        at=f"{type_}::{json.dumps(id_, ensure_ascii=False)}",
    )
    action = None if problem.hint else _creating_action(type_, id_)
    return replace(problem, code="policy.unknown_name", action=action)


def _suggest(type_: str, id_: str, known: frozenset[str]) -> str:
    prefixed = f"{_ID_PREFIXES.get(type_, '')}:{id_}"
    close = [prefixed] if prefixed in known else difflib.get_close_matches(id_, sorted(known), n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    if type_ in _ID_PREFIXES and ":" not in id_:
        return f"ids of this type begin with '{_ID_PREFIXES[type_]}:'"
    return ""
