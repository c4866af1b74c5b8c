"""Checks an untrusted JSON Schema before it is compiled.

A schema is a small program that we run on every call, so an untrusted one has to be small, self-contained, and bounded
in time: no remote references, no expression that backtracks, no reference loop, and no chain of references that doubles
at every level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, TypeAlias, cast

import jsonschema_rs
from msgspec import Struct, field

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.core.schema.json_value import json_problems
from paddock.core.schema.problem_text import MAX_MESSAGE_CHARS, join_below, problems_from_error, quoted
from paddock.core.schema.traversal import (
    DEFINITION_KEYWORDS,
    REFERENCE_KEYWORDS,
    SAME_VALUE_KEYWORDS,
    PathPart,
    ReferenceResolver,
    as_object,
    is_schema,
    references,
    starts_resource,
    subschemas,
)

MAX_LEVELS = 16
MAX_SUBSCHEMAS = 500
MAX_NODES = 10_000
MAX_TEXT_CHARS = 500_000
MAX_NESTING = 64
MAX_PATTERN_CHARS = 2_000
MAX_PATTERNS = 200
MAX_EXPANDED_SCHEMAS = 50_000
MAX_PROBLEMS = 50

_METASCHEMAS = {
    "http://json-schema.org/draft-04/schema": "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema": "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema": "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema": "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema": "https://json-schema.org/draft/2020-12/schema",
}
_LATEST_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_BACKTRACKING_SYNTAX = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<|\(\?>|[*+?}]\+")


def check_schema(schema: object, path: str = "") -> list[Problem]:
    """List everything that is wrong with an untrusted schema; empty when it may be compiled.

    Args:
        schema: The schema as read from a manifest or a plugin's response.
        path: Its path in its document, to put before each problem's path.
    """
    if not is_schema(schema):
        return [Problem(path, "a schema must be an object or true/false", 'for example {"type": "object"}', "type")]
    if isinstance(schema, bool):
        return []
    unreadable = json_problems(schema, path, nodes=MAX_NODES, text=MAX_TEXT_CHARS, depth=MAX_NESTING)
    if unreadable:
        return unreadable
    survey = _SchemaSurvey(schema, path)
    survey.walk()
    if not survey.problems and survey.unfolds:
        survey.problems += _check_expansion(survey)
    return _deduplicate(survey.problems)[:MAX_PROBLEMS] or _check_with_engine(schema, path, survey.pattern_count)


def pattern_options(count: int) -> jsonschema_rs.RegexOptions:
    """Options for the linear-time engine, with memory divided so that many patterns cost no more than a few."""
    return jsonschema_rs.RegexOptions(size_limit=_pattern_limit(count))


def _pattern_limit(count: int) -> int:
    return max(64 * 1024, min(8 * 1024 * 1024, 64 * 1024 * 1024 // max(1, count)))


@lru_cache(maxsize=256)
def _compiles(pattern: str, limit: int) -> bool:
    """Whether the engine accepts an expression within this memory. Cached: callables of one plugin share patterns."""
    options = jsonschema_rs.RegexOptions(size_limit=limit)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options, offline=True)
    except ValueError:
        return False
    return True


def patterns_of(schema: object) -> Iterator[tuple[tuple[PathPart, ...], str]]:
    """The regular expressions of one schema (not of its subschemas), with their paths."""
    if not isinstance(schema, dict):
        return
    keywords = cast("dict[str, Any]", schema)
    if isinstance(keywords.get("pattern"), str):
        yield ("pattern",), keywords["pattern"]
    if isinstance(keywords.get("patternProperties"), dict):
        yield from ((("patternProperties", name), name) for name in keywords["patternProperties"])


# The location of a schema: that of its parent and the steps from there. Expanded only for a problem.
_SchemaLocation: TypeAlias = "tuple[_SchemaLocation, tuple[PathPart, ...]] | None"


def _path_parts(location: _SchemaLocation) -> tuple[PathPart, ...]:
    steps: list[tuple[PathPart, ...]] = []
    while location is not None:
        location, step = location
        steps.append(step)
    return tuple(part for step in reversed(steps) for part in step)


class _SchemaSurvey(Struct):
    """One pass over the document that collects schemas, references, patterns and problems."""

    root: dict[str, Any] | Any
    path: str
    problems: list[Problem] = field(default_factory=list[Problem])
    resource_of: dict[int, Any] = field(default_factory=dict[int, Any])
    patterns: dict[str, tuple[PathPart, ...]] = field(default_factory=dict[str, tuple[PathPart, ...]])
    referenced_only: list[tuple[tuple[PathPart, ...], Any]] = field(
        default_factory=list[tuple[tuple[PathPart, ...], Any]]
    )
    resolver: ReferenceResolver = field(default_factory=ReferenceResolver)
    pattern_count: int = 0  # in all schemas that keywords lead to, repetitions included
    unfolds: bool = False  # whether any schema is reached in more than one way

    def walk(self) -> None:
        pending: list[tuple[_SchemaLocation, Any, int, Any]] = [(None, self.root, 0, self.root)]
        unresolved: list[tuple[_SchemaLocation, dict[str, Any], Any]] = []
        while pending or unresolved:
            if not pending:  # keywords are exhausted; now the schemas that only references reach
                pending += self._referenced_schemas(*unresolved.pop())
                continue
            location, node, level, resource = pending.pop()
            schema = as_object(node)
            if schema is None:
                continue
            if id(schema) in self.resource_of:
                self.unfolds = True
                continue
            if level > MAX_LEVELS:
                message = f"schemas nested more than {MAX_LEVELS} levels deep"
                self.add_problem(_path_parts(location), message, "flatten it, or use $defs")
                return
            if len(self.resource_of) >= MAX_SUBSCHEMAS:
                self.add_problem((), f"more than {MAX_SUBSCHEMAS} subschemas", "describe less, or split the callable")
                return
            resource = schema if starts_resource(schema) else resource
            self.resource_of[id(schema)] = resource
            self._inspect(location, schema, level)
            pending += [((location, step), inner, level + 1, resource) for step, inner in subschemas(schema)]
            if any(keyword in schema for keyword in REFERENCE_KEYWORDS):
                self.unfolds = True
                unresolved.append((location, schema, resource))
        self._check_patterns()
        self._check_against_metaschema()

    def add_problem(self, parts: tuple[PathPart, ...], message: str, hint: str = "", code: str = "schema") -> None:
        self.problems.append(
            Problem(
                join_below(self.path, parts),
                printable(message, MAX_MESSAGE_CHARS),
                printable(hint, MAX_MESSAGE_CHARS),
                code,
            )
        )

    def _inspect(self, location: _SchemaLocation, schema: dict[str, Any], level: int) -> None:
        if "pattern" in schema or "patternProperties" in schema:
            for path, pattern in patterns_of(schema):
                self.patterns.setdefault(pattern, (*_path_parts(location), *path))
                self.pattern_count += not self.referenced_only
                if len(self.patterns) > MAX_PATTERNS:
                    return
        dialect = schema.get("$schema")
        if level and dialect is not None and dialect != self.root.get("$schema"):
            path = (*_path_parts(location), "$schema")
            self.add_problem(path, "a part of a schema cannot speak another draft", "remove this $schema")
        if not level and _metaschema(self.root) is None:
            self.add_problem(("$schema",), "unknown JSON Schema draft", f'use "{_LATEST_DRAFT}", or leave it out')

    def _referenced_schemas(
        self, location: _SchemaLocation, schema: dict[str, Any], resource: object
    ) -> Iterator[tuple[_SchemaLocation, Any, int, Any]]:
        """Schemas that this one's references reach, so that nothing hides where no keyword leads."""
        for keyword, reference in references(schema):
            path = (*_path_parts(location), keyword)
            if not reference.startswith("#"):
                self.add_problem(
                    path,
                    f"remote references are refused: {quoted(reference)}",
                    "copy the schema under $defs and refer to it as #/$defs/NAME",
                    "schema.remote_reference",
                )
                continue
            try:
                target = self.resolver.resolve(resource, reference)
            except LookupError:
                self.add_problem(path, f"{quoted(reference)} points at nothing", "", "schema.broken_reference")
                continue
            if not is_schema(target):
                self.add_problem(path, f"{quoted(reference)} is not a schema", "", "schema.broken_reference")
            elif id(target) not in self.resource_of:
                self.referenced_only.append((path, target))
                yield (location, (keyword,)), target, 1, resource

    def _check_patterns(self) -> None:
        if len(self.patterns) > MAX_PATTERNS:
            # Compiling one is cheap; compiling thousands is not.
            self.add_problem((), f"more than {MAX_PATTERNS} regular expressions", "use fewer", "schema.pattern")
            return
        limit = _pattern_limit(len(self.patterns))
        for pattern, parts in self.patterns.items():
            if len(pattern) > MAX_PATTERN_CHARS:
                self.add_problem(
                    parts, f"regular expression longer than {MAX_PATTERN_CHARS} characters", "", "schema.pattern"
                )
                continue
            if not _compiles(pattern, limit):
                self.add_problem(parts, *_pattern_problem(pattern), code="schema.pattern")

    def _check_against_metaschema(self) -> None:
        meta = _metaschema(self.root)
        if meta is None:
            return
        validator = _metaschema_validator(meta)
        # The metaschema does not cover schemas that only a reference reaches.
        for parts, schema in ((), self.root), *self.referenced_only:
            for error in () if validator.is_valid(schema) else validator.iter_errors(schema):
                self.problems += problems_from_error(error, {}, join_below(self.path, parts))


def _metaschema(root: object) -> str | None:
    """The metaschema that a document names; None when it is unknown."""
    uri = cast("dict[str, Any]", root).get("$schema", _LATEST_DRAFT)
    return _METASCHEMAS.get(uri.removesuffix("#")) if isinstance(uri, str) else None


@cache
def _metaschema_validator(meta: str) -> jsonschema_rs.Validator:
    """The validator of a metaschema. Cached, because building it costs more than all other checks together."""
    return jsonschema_rs.validator_for({"$schema": meta, "$ref": meta}, offline=True, validate_formats=False)


def _pattern_problem(pattern: str) -> tuple[str, str]:
    shown = quoted(pattern)
    if _BACKTRACKING_SYNTAX.search(pattern):
        return (
            f"the regular expression {shown} uses look-around, back-references or possessive matching",
            "these are refused because they can take exponential time; write it without them",
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return f"{shown} is not a valid regular expression", ""
    return f"the regular expression {shown} is not understood or needs too much memory", "use smaller repetition counts"


def _applied_schemas(survey: _SchemaSurvey, schema: object) -> Iterator[tuple[Any, bool]]:
    """(schema, applies to the same value) for everything that applying `schema` applies in turn."""
    for step, inner in subschemas(schema):
        if step[0] not in DEFINITION_KEYWORDS:
            yield inner, step[0] in SAME_VALUE_KEYWORDS
    for _, reference in references(schema):
        yield survey.resolver.resolve(survey.resource_of.get(id(schema), survey.root), reference), True


def _check_expansion(survey: _SchemaSurvey) -> list[Problem]:
    """Expand all references, as running the schema does, and refuse loops and explosions.

    The engine memoizes only where a reference leads back into itself; anything else it runs as
    often as it is reached, so the expanded size is what a call pays.
    """
    path: list[tuple[int, bool, Iterator[tuple[Any, bool]]]] = [
        (id(survey.root), False, _applied_schemas(survey, survey.root))
    ]
    depth_of = {id(survey.root): 0}
    steps = 0
    while path:
        for inner, same_value in path[-1][2]:
            steps += 1
            if steps > MAX_EXPANDED_SCHEMAS:
                hint = "refer to each definition from fewer places"
                return [Problem(survey.path, "its references unfold to too many schemas", hint, "schema.too_complex")]
            loop_start = depth_of.get(id(inner))
            if loop_start is None and as_object(inner) is not None:
                depth_of[id(inner)] = len(path)
                path.append((id(inner), same_value, _applied_schemas(survey, inner)))
                break
            if loop_start is not None and same_value and all(same for _, same, _ in path[loop_start + 1 :]):
                hint = "a schema may contain itself only inside properties or items"
                return [Problem(survey.path, "a reference leads back to itself", hint, "schema.circular_reference")]
        else:
            depth_of.pop(path.pop()[0])
    return []


def build_untrusted_validator(schema: dict[str, Any] | bool, patterns: int | None = None) -> jsonschema_rs.Validator:
    """Build the validator of an untrusted schema. Checking and compiling both build it here, so they cannot disagree.

    Args:
        schema: The schema to compile.
        patterns: How many expressions it has, where they were counted already.
    """
    count = _count_patterns(schema) if patterns is None else patterns
    return jsonschema_rs.validator_for(
        schema, offline=True, validate_formats=True, pattern_options=pattern_options(count)
    )


def _count_patterns(schema: object) -> int:
    schemas: dict[int, Any] = {id(schema): schema}
    pending: list[Any] = [schema]
    while pending:
        fresh = {id(inner): inner for _, inner in subschemas(pending.pop()) if id(inner) not in schemas}
        schemas |= fresh
        pending += fresh.values()
    return sum(1 for inner in schemas.values() for _ in patterns_of(inner))


def _check_with_engine(schema: object, path: str, patterns: int) -> list[Problem]:
    """Report problems that only building the validator finds."""
    try:
        build_untrusted_validator(cast("dict[str, Any]", schema), patterns)
    except ValueError as error:
        return [Problem(path, printable(str(error).split("\n", 1)[0], MAX_MESSAGE_CHARS), "", "schema")]
    return []


def _deduplicate(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
