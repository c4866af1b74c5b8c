"""The one place that speaks to Cedar, the language that rules are written in and the engine that evaluates them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final, cast

import orjson

_SYNTAX_TREE_MODULE = "cedarpy.pst"


def _load_cedar() -> Any:
    """The library, without its classes for syntax trees: making those takes most of its time to load.

    An empty module stands in for them meanwhile, and goes again: whoever else in this process wants them gets them.
    """
    if "cedarpy" in sys.modules or _SYNTAX_TREE_MODULE in sys.modules:
        return import_module("cedarpy")
    sys.modules[_SYNTAX_TREE_MODULE] = ModuleType(_SYNTAX_TREE_MODULE)
    try:
        library = import_module("cedarpy")
    finally:
        del sys.modules[_SYNTAX_TREE_MODULE]
    vars(library).pop("pst", None)
    return library


_cedar: Final = _load_cedar()


@dataclass(frozen=True, slots=True)
class CedarResponse:
    """What Cedar says to one question."""

    allowed: bool
    deciding: tuple[str, ...]
    """Ids of the rules that decided; none where no rule applies."""
    errors: tuple[str, ...]
    """Rules that could not be evaluated, and that Cedar therefore passed over. Whoever reads this must deny."""


class CedarEvaluator:
    """A schema and rules, parsed once. Never changed; safe to ask from any thread."""

    def __init__(self, schema: str, rules: str) -> None:
        self._schema = _cedar.Schema.from_str(schema)
        self._rules = _cedar.PolicySet.from_str(rules)

    def entities(self, entities: Sequence[Mapping[str, Any]]) -> Any:
        """Entities as Cedar keeps them, checked against the schema.

        Raises:
            ValueError: they do not fit it.
        """
        return _cedar.Entities.from_json_str(orjson.dumps(entities).decode(), self._schema)

    def evaluate(
        self,
        principal: Mapping[str, str],
        action: str,
        resource: Mapping[str, str],
        context: Mapping[str, Any],
        entities: Any,
    ) -> CedarResponse:
        """The answer to one question about these entities."""
        question = {
            "principal": principal,
            "action": {"type": "Action", "id": action},
            "resource": resource,
            "context": orjson.dumps(context).decode(),
        }
        said = _cedar.is_authorized(question, self._rules, entities, schema=self._schema)
        names = said.diagnostics.id_annotations_by_reason
        deciding = tuple(sorted(names[reason] for reason in said.diagnostics.reasons))
        return CedarResponse(bool(said.allowed), deciding, tuple(said.diagnostics.errors))


def parse_policies(text: str, count: int) -> list[Mapping[str, Any]]:
    """So many rules as Cedar's JSON, in order.

    Raises:
        ValueError: they cannot be read, are others than so many, or are templates.
    """
    document = json.loads(_cedar.policies_to_json_str(text))
    policies = cast("dict[str, Mapping[str, Any]]", document["staticPolicies"])
    if document["templates"]:
        raise ValueError("`?principal` and `?resource` are for templates, which are of no use here")
    if len(policies) != count:
        raise ValueError("a rule ends with its first `;`")
    return [policies[cedar_policy_id(index)] for index in range(count)]


def validation_errors(text: str, schema: str) -> list[tuple[str, str]]:
    """Everything in the rules that does not fit the schema: which rule, as Cedar numbers them, and what is wrong."""
    checked = _cedar.validate_policies(text, schema)
    found = [(str(error.policy_id), str(error.error)) for error in checked.errors]
    if not (checked.validation_passed or found):
        found.append(("", "the rules do not fit the schema"))
    return found


def cedar_policy_id(index: int) -> str:
    """What Cedar calls the rule that stands there in the text."""
    return f"policy{index}"
