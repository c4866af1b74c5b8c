"""Idempotency hints: fills in the `idempotency_hint` templates of the actions that agents propose. Pure.

    {"operator": "Professor.Summarize", "payload": {"professor_id": 910}, "idempotency_hint": "prof_sum:{professor_id}"}

A placeholder names a field of the payload next to the hint; `{student.id}` names a nested field. The result is an
idempotency key for the caller that carries out the proposal. A hint that gives no valid key makes the answer invalid:
two actions that differ only in the part that was not filled in would share one key. Hints are searched for at every
depth of the answer, as proposals are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import quote

from paddock.core.errors import Invalid, PluginError, Problem
from paddock.core.printable import printable
from paddock.core.schema.traversal import object_or_empty
from paddock.gate.idempotency.key_verdict import validate_idempotency_key
from paddock.manifest.model import Manifest
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.dialects.proposals import parse_json_text

HINT_FIELD: Final = "idempotency_hint"
MAX_HINT_PROBLEMS: Final = 20
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
# Allowed unquoted in a value: all printable ASCII that a key may hold, except `%`, the quoting sign.
_UNQUOTED_CHARS: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"

_HintLocation: TypeAlias = "tuple[Any, str | int] | None"
"""Path to a value in an answer, as a linked list: the location of its container, and its key or index there."""


class InvalidIdempotencyHint(PluginError):
    """An agent's idempotency hint gives no valid key."""

    code = "proposal.bad_hint"

    def __init__(self, plugin: str, callable_name: str, problems: list[Problem]) -> None:
        super().__init__(
            f"{plugin} answered {callable_name} with a hint that comes to no idempotency key",
            hint=str(problems[0]),
            details={"plugin": plugin, "errors": [problem.to_dict() for problem in problems[:MAX_HINT_PROBLEMS]]},
        )


class FilledHints(NamedTuple):
    """An answer with its hints filled in, and the problems of those that cannot be."""

    answer: Any
    problems: list[Problem]


def fill_idempotency_hints(manifest: Manifest, result: Any) -> FilledHints:
    """Fill in every hint of an agent's answer.

    The given result is not changed. It is returned as it is if it has no hints.
    """
    filler = _HintFiller()
    answer = filler.fill(result, None)
    if is_mcp_server(manifest):
        for block, location in _text_blocks(answer):
            text_filler = _HintFiller()
            filled = text_filler.fill(parse_json_text(block["text"]), location)
            if text_filler.filled:
                block["text"] = json.dumps(filled)
            filler.filled += text_filler.filled
            filler.problems += text_filler.problems
    return FilledHints(answer if filler.filled else result, filler.problems)


class _HintFiller:
    """Walks an answer once, copies its containers and fills in its hints."""

    def __init__(self) -> None:
        self.filled = 0
        self.problems: list[Problem] = []

    def fill(self, value: Any, location: _HintLocation) -> Any:
        # Without recursion: an answer may be nested deeper than Python's recursion limit.
        top = [value]
        pending: list[tuple[Any, str | int, _HintLocation]] = [(top, 0, location)]
        while pending:
            holder, name, location = pending.pop()
            inner = holder[name]
            if isinstance(inner, dict):
                fields = holder[name] = dict(cast("dict[str, Any]", inner))
                if fields.get(HINT_FIELD) is not None:
                    self._fill_hint(fields, location)
                pending += [(fields, key, (location, key)) for key, one in fields.items() if _is_container(one)]
            elif isinstance(inner, list | tuple):
                entries = holder[name] = list(cast("list[Any]", inner))
                pending += [
                    (entries, index, (location, index)) for index, one in enumerate(entries) if _is_container(one)
                ]
        return top[0]

    def _fill_hint(self, step: dict[str, Any], location: _HintLocation) -> None:
        try:
            step[HINT_FIELD] = expand_hint(step[HINT_FIELD], step.get("payload"))
        except _HintError as error:
            if len(self.problems) < MAX_HINT_PROBLEMS:
                self.problems.append(
                    Problem(_location_path((location, HINT_FIELD)), str(error), error.suggestion, "wrong_value")
                )
        else:
            self.filled += 1


class _HintError(Exception):
    """The problem with a hint, and a suggestion to fix it."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def expand_hint(hint: Any, payload: Any) -> str:
    """Expand a hint with the fields of a payload into an idempotency key.

    Raises:
        _HintError: the hint gives no valid key.
    """
    if not isinstance(hint, str):
        raise _HintError("is no text", "write a template such as summary:{id}")
    remainder = _PLACEHOLDER.sub("", hint)
    if "{" in remainder or "}" in remainder:
        raise _HintError("has a brace that belongs to no placeholder", "write {id} for the field id of the payload")
    try:
        return validate_idempotency_key(_PLACEHOLDER.sub(lambda match: _encode_placeholder(match[1], payload), hint))
    except Invalid as invalid:
        raise _HintError(f"once filled in, {invalid.problems[0].message}", invalid.problems[0].hint) from None


def _encode_placeholder(name: str, payload: Any) -> str:
    """Return the value of a placeholder, encoded for use in a key."""
    value, label = _find_value(name, payload), printable(name, 80)
    if value is None:
        raise _HintError(f"{{{label}}} is not in the payload", f"put {label} into the payload, or write its value")
    if isinstance(value, str):
        return quote(value, safe=_UNQUOTED_CHARS, errors="backslashreplace")
    if isinstance(value, int | float):
        return json.dumps(value)
    raise _HintError(f"{{{label}}} is neither a text nor a number nor true or false", "name a field of it")


def _find_value(name: str, payload: Any) -> Any:
    fields = object_or_empty(payload)
    if name in fields:
        return fields[name]
    value: Any = fields
    for part in name.split("."):
        value = object_or_empty(value).get(part)
    return value


def _text_blocks(answer: Any) -> Iterator[tuple[dict[str, Any], _HintLocation]]:
    """Yield the objects in an MCP server's answer whose text may be JSON, with the location of the text."""
    content = object_or_empty(answer).get("content")
    for index, block in enumerate(cast("list[Any]", content) if isinstance(content, list) else ()):
        block_location = ((None, "content"), index)
        for holder, holder_location in (
            (object_or_empty(block), block_location),
            (object_or_empty(object_or_empty(block).get("resource")), (block_location, "resource")),
        ):
            if isinstance(holder.get("text"), str):
                yield holder, (holder_location, "text")


def _location_path(location: _HintLocation) -> str:
    parts: list[str] = []
    while location is not None:
        location, name = location
        parts.append(printable(str(name), 80))
    return ".".join(reversed(parts))


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | tuple)
