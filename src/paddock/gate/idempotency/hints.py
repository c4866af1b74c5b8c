"""The keys that agents hint at for what they propose: each `idempotency_hint`, filled in. Pure.

    {"operator": "Professor.Summarize", "payload": {"professor_id": 910}, "idempotency_hint": "prof_sum:{professor_id}"}

A placeholder is a field of the payload that stands beside the hint; `{student.id}` is one further in. What comes out is
an idempotency key for whoever carries the proposal out. A hint that comes to none is a mistake of the answer: what
differs only in what was not filled in would be one and the same thing under its key. Hints are looked for wherever
they stand, as proposals are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import quote

from paddock.core.errors import Invalid, PluginError, Problem
from paddock.core.printable import printable
from paddock.gate.idempotency.states import validate_idempotency_key
from paddock.manifest.model import Manifest
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.dialects.proposals import parse_json_text

HINT_FIELD: Final = "idempotency_hint"
MAX_HINT_PROBLEMS: Final = 20
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_UNQUOTED_CHARS: Final = (
    " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # in a value; all but what no key may hold, and the sign for it
)

_HintLocation: TypeAlias = "tuple[Any, str | int] | None"
"""Where something stands in an answer: where what holds it stands, and its name there."""


class InvalidIdempotencyHint(PluginError):
    """An agent hints at a key that cannot be filled in."""

    code = "proposal.bad_hint"

    def __init__(self, plugin: str, callable_name: str, problems: list[Problem]) -> None:
        super().__init__(
            f"{plugin} answered {callable_name} with a hint that comes to no idempotency key",
            hint=str(problems[0]),
            details={"plugin": plugin, "errors": [problem.to_dict() for problem in problems[:MAX_HINT_PROBLEMS]]},
        )


class FilledHints(NamedTuple):
    """An answer with its hints filled in, and what is wrong with those that cannot be."""

    answer: Any
    problems: list[Problem]


def fill_idempotency_hints(manifest: Manifest, result: Any) -> FilledHints:
    """The answer of an agent with every hint filled in. What was given is not changed; the same where it has none."""
    filling = _HintFiller()
    answer = filling.fill(result, None)
    if is_mcp_server(manifest):
        for block, place in _text_blocks(answer):
            inside = _HintFiller()
            filled = inside.fill(parse_json_text(block["text"]), place)
            if inside.filled:
                block["text"] = json.dumps(filled)
            filling.filled += inside.filled
            filling.problems += inside.problems
    return FilledHints(answer if filling.filled else result, filling.problems)


class _HintFiller:
    """Goes through an answer once, and copies it on its way."""

    def __init__(self) -> None:
        self.filled = 0
        self.problems: list[Problem] = []

    def fill(self, value: Any, place: _HintLocation) -> Any:
        # Without recursion: an answer may be deeper than Python calls can be.
        top = [value]
        waiting: list[tuple[Any, str | int, _HintLocation]] = [(top, 0, place)]
        while waiting:
            holder, name, place = waiting.pop()
            inner = holder[name]
            if isinstance(inner, dict):
                fields = holder[name] = dict(cast("dict[str, Any]", inner))
                if fields.get(HINT_FIELD) is not None:
                    self._fill_hint(fields, place)
                waiting += [(fields, key, (place, key)) for key, one in fields.items() if _is_container(one)]
            elif isinstance(inner, list | tuple):
                entries = holder[name] = list(cast("list[Any]", inner))
                waiting += [(entries, at, (place, at)) for at, one in enumerate(entries) if _is_container(one)]
        return top[0]

    def _fill_hint(self, step: dict[str, Any], place: _HintLocation) -> None:
        try:
            step[HINT_FIELD] = expand_hint(step[HINT_FIELD], step.get("payload"))
        except _HintError as mistake:
            if len(self.problems) < MAX_HINT_PROBLEMS:
                self.problems.append(
                    Problem(_location_path((place, HINT_FIELD)), str(mistake), mistake.suggestion, "wrong_value")
                )
        else:
            self.filled += 1


class _HintError(Exception):
    """What is wrong with a hint, and what would help."""

    def __init__(self, message: str, way_out: str) -> None:
        super().__init__(message)
        self.suggestion = way_out


def expand_hint(hint: Any, payload: Any) -> str:
    """The key that a hint comes to with this payload.

    Raises:
        _NoKey: none.
    """
    if not isinstance(hint, str):
        raise _HintError("is no text", "write a template such as summary:{id}")
    left = _PLACEHOLDER.sub("", hint)
    if "{" in left or "}" in left:
        raise _HintError("has a brace that belongs to no placeholder", "write {id} for the field id of the payload")
    try:
        return validate_idempotency_key(_PLACEHOLDER.sub(lambda found: _encode_placeholder(found[1], payload), hint))
    except Invalid as invalid:
        raise _HintError(f"once filled in, {invalid.problems[0].message}", invalid.problems[0].hint) from None


def _encode_placeholder(name: str, payload: Any) -> str:
    """The value of a placeholder, as it stands in a key."""
    value, shown = _find_value(name, payload), printable(name, 80)
    if value is None:
        raise _HintError(f"{{{shown}}} is not in the payload", f"put {shown} into the payload, or write its value")
    if isinstance(value, str):
        return quote(value, safe=_UNQUOTED_CHARS, errors="backslashreplace")
    if isinstance(value, int | float):
        return json.dumps(value)
    raise _HintError(f"{{{shown}}} is neither a text nor a number nor true or false", "name a field of it")


def _find_value(name: str, payload: Any) -> Any:
    fields = _as_dict(payload)
    if name in fields:
        return fields[name]
    value: Any = fields
    for part in name.split("."):
        value = _as_dict(value).get(part)
    return value


def _text_blocks(answer: Any) -> Iterator[tuple[dict[str, Any], _HintLocation]]:
    """What in an MCP server's answer has a text that may be JSON, and where that stands."""
    content = _as_dict(answer).get("content")
    for at, block in enumerate(cast("list[Any]", content) if isinstance(content, list) else ()):
        place = ((None, "content"), at)
        for holder, where in (
            (_as_dict(block), place),
            (_as_dict(_as_dict(block).get("resource")), (place, "resource")),
        ):
            if isinstance(holder.get("text"), str):
                yield holder, (where, "text")


def _location_path(place: _HintLocation) -> str:
    parts: list[str] = []
    while place is not None:
        place, name = place
        parts.append(printable(str(name), 80))
    return ".".join(reversed(parts))


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | tuple)


def _as_dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
