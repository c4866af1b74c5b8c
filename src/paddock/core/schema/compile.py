"""Compiled JSON Schemas, whose errors are texts that a person can act on.

`compile_schema` takes an untrusted schema and refuses it with all its mistakes; `compile_trusted` takes
one of ours. Nothing is ever fetched, formats are checked, and expressions run in linear time.
"""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from typing import Any, cast

import jsonschema_rs

from paddock.core.errors import Invalid, Problem
from paddock.core.schema.check import build_untrusted_validator, check_schema, pattern_options
from paddock.core.schema.json_value import MAX_DEPTH, is_deeper_than, json_problems
from paddock.core.schema.problem_text import join_path, problems_from_error
from paddock.core.schema.traversal import (
    DEFINITION_KEYWORDS,
    SAME_VALUE_KEYWORDS,
    ReferenceResolver,
    as_object,
    references,
    starts_resource,
    subschemas,
)

__all__ = ["MAX_PROBLEMS", "CompiledSchema", "check_schema", "compile_schema", "compile_trusted", "join_path"]

MAX_PROBLEMS = 50
_MAX_VISITS = 20_000
_MAX_COPIED_VALUES = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A compiled schema. Equal to another when their sources are."""

    source: dict[str, Any] | bool
    _validator: jsonschema_rs.Validator = dataclasses.field(repr=False, compare=False, hash=False)

    def is_valid(self, value: object) -> bool:
        """Whether the value is valid. Fast; `errors` gives the reasons."""
        return not is_deeper_than(value) and self.is_valid_without_depth_check(value)

    def is_valid_without_depth_check(self, value: object) -> bool:
        """Whether the value is valid, for a value that already passed `is_deeper_than`."""
        try:
            return self._validator.is_valid(value)
        except ValueError:  # contains something that is not JSON
            return False

    def errors(self, value: object) -> list[Problem]:
        """Every mistake in the value, at most `MAX_PROBLEMS` of them; empty when it is valid."""
        if self.is_valid(value):
            return []
        unreadable = json_problems(value, depth=MAX_DEPTH)
        if unreadable:
            return unreadable[:MAX_PROBLEMS]
        if not _can_list_errors(self.source, value):
            hint = "send less at once, or check it in parts"
            return [Problem("", "does not match its schema, and is too large to list the mistakes", hint, "too_large")]
        problems: dict[Problem, None] = {}
        for error in self._validator.iter_errors(value):
            problems.update(dict.fromkeys(problems_from_error(error, self.source)))
            if len(problems) >= MAX_PROBLEMS:
                break
        return list(problems)[:MAX_PROBLEMS]


def compile_schema(schema: object, path: str = "") -> CompiledSchema:
    """Check and compile an untrusted schema.

    Raises:
        Invalid: It is not a schema we are willing to run; carries every reason.
    """
    problems = check_schema(schema, path)
    if problems:
        raise Invalid("the schema cannot be used", problems, code="schema.invalid")
    source = cast("dict[str, Any] | bool", deepcopy(schema))
    return CompiledSchema(source, build_untrusted_validator(source))


def compile_trusted(schema: dict[str, Any] | bool) -> CompiledSchema:
    """Compile one of our own schemas, without the limits for untrusted ones."""
    engine = jsonschema_rs.validator_for(
        schema, validate_formats=True, offline=True, pattern_options=pattern_options(1)
    )
    return CompiledSchema(schema, engine)


def _can_list_errors(source: object, value: object) -> bool:
    """Whether listing all mistakes stays cheap.

    The engine collects every error, each with a copy of the value it is about, before it returns the
    first; recursive schemas make that exponential. So count what could be visited, and give up early.
    """
    sizes: dict[int, int] = {}
    _measure_sizes(value, sizes)
    resolver = ReferenceResolver()
    pending: list[tuple[Any, Any, Any]] = [(source, value, source)]
    visits = copied = 0
    while pending:
        schema, current, resource = pending.pop()
        keywords = as_object(schema)
        if keywords is None:
            continue
        visits += 1
        copied += sizes.get(id(current), 1) * (1 + len(keywords.get("required", ())))
        if visits + len(pending) > _MAX_VISITS or copied > _MAX_COPIED_VALUES:
            return False
        resource = keywords if starts_resource(keywords) else resource
        for step, inner in subschemas(keywords):
            if step[0] in SAME_VALUE_KEYWORDS:
                pending.append((inner, current, resource))
            elif step[0] not in DEFINITION_KEYWORDS:
                pending += [(inner, part, resource) for part in _inspected_parts(step, current)]
        for _, reference in references(keywords):
            try:
                pending.append((resolver.resolve(resource, reference), current, resource))
            except LookupError:
                return False
    return True


def _inspected_parts(step: tuple[str | int, ...], value: object) -> list[Any]:
    """The parts of a value that the subschema at `step` may apply to; rather too many than too few."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if step[0] == "properties":
            return [fields[str(step[1])]] if step[1] in fields else []
        return list(fields) if step[0] == "propertyNames" else list(fields.values())
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        if len(step) == 2 and isinstance(step[1], int):
            return list(items[step[1] : step[1] + 1])
        return list(items)
    return []


def _measure_sizes(value: object, sizes: dict[int, int]) -> int:
    """The number of scalars (long strings counting more) in each container, by its id."""
    if isinstance(value, str):
        return 1 + len(value) // 64
    if isinstance(value, (dict, list, tuple)):
        inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        size = 1 + sum(_measure_sizes(part, sizes) for part in inner)
        sizes[id(cast("Any", value))] = size
        return size
    return 1
