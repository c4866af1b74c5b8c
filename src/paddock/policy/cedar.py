"""The only module that uses Cedar: the language of the rules and the engine that evaluates them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, cast

import orjson
from msgspec import Struct

_SYNTAX_TREE_MODULE = "cedarpy.pst"


def _load_cedar() -> Any:
    """Import the library without its syntax tree classes: defining those takes most of its import time.

    An empty module stands in for them during the import and is removed afterwards, so that other code can import them.
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


class CedarResponse(Struct, frozen=True):
    """Cedar's response to one request."""

    allowed: bool
    deciding: tuple[str, ...]
    """Ids of the rules that decided; none if no rule applies."""
    errors: tuple[str, ...]
    """Rules that could not be evaluated, and that Cedar therefore skipped. The caller must deny."""


class CedarEvaluator:
    """A schema and rules, parsed once. Immutable and thread-safe."""

    def __init__(self, schema: str, rules: str) -> None:
        self._schema = _cedar.Schema.from_str(schema)
        self._rules = _cedar.PolicySet.from_str(rules)

    def entities(self, entities: Sequence[Mapping[str, Any]]) -> Any:
        """Convert entities to Cedar's form, validated against the schema.

        Raises:
            ValueError: they violate the schema.
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
        """Evaluate one request with these entities."""
        request = {
            "principal": principal,
            "action": {"type": "Action", "id": action},
            "resource": resource,
            "context": orjson.dumps(context).decode(),
        }
        response = _cedar.is_authorized(request, self._rules, entities, schema=self._schema)
        names = response.diagnostics.id_annotations_by_reason
        deciding = tuple(sorted(names[reason] for reason in response.diagnostics.reasons))
        return CedarResponse(bool(response.allowed), deciding, tuple(response.diagnostics.errors))


def parse_policies(text: str, count: int) -> list[Mapping[str, Any]]:
    """Parse `count` rules to Cedar's JSON format, in order.

    Raises:
        ValueError: they cannot be parsed, their number differs, or they are templates.
    """
    document = json.loads(_cedar.policies_to_json_str(text))
    policies = cast("dict[str, Mapping[str, Any]]", document["staticPolicies"])
    if document["templates"]:
        raise ValueError("`?principal` and `?resource` are for templates, which are of no use here")
    if len(policies) != count:
        raise ValueError("a rule ends with its first `;`")
    return [policies[cedar_policy_id(index)] for index in range(count)]


def validation_errors(text: str, schema: str) -> list[tuple[str, str]]:
    """Return everything in the rules that violates the schema: the rule, as Cedar numbers them, and the error."""
    validation = _cedar.validate_policies(text, schema)
    errors = [(str(error.policy_id), str(error.error)) for error in validation.errors]
    if not (validation.validation_passed or errors):
        errors.append(("", "the rules do not fit the schema"))
    return errors


def cedar_policy_id(index: int) -> str:
    """Return Cedar's id of the rule at that position in the text."""
    return f"policy{index}"
