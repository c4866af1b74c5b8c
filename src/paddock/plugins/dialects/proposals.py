"""Extracts every callable that an agent's result proposes to run. Pure.

The contract has two places for that, `required_actions` and the steps of a `proposed_plan`. They are searched anywhere
in the result, since the executor of a plan may unwrap more than we do. Values in another shape than the contract's are
returned literally: no allowlist contains something that is not a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from paddock.manifest.model import Manifest
from paddock.plugins.dialects.envelope import is_mcp_server, result_value

MAX_NAME_CHARS: Final = 1_000  # no name on an allowlist is longer
_CALLABLE_KEYS: Final = ("operator", "action", "tool", "agent", "adapter", "plugin", "callable", "function")
"""The fields of a step that say what to run. The executor decides which of them counts, so all of them do."""


def proposed_callables(manifest: Manifest, result: Any) -> Iterator[str]:
    """Yield everything that this result of an agent proposes, possibly more than once."""
    for candidate in _candidate_values(manifest, result):
        yield from _names_in_steps(_as_mapping(candidate).get("steps"))  # a plan without its wrapper
        pending = [candidate]
        while pending:
            value = pending.pop()
            fields = _as_mapping(value)
            yield from _names_in_steps(fields.get("required_actions"))
            yield from _names_in_plan(fields.get("proposed_plan"))
            yield from _names_in_suggestions(fields.get("next_step_suggestions"))
            pending += fields.values() if fields else _entries(value) or ()


def _candidate_values(manifest: Manifest, result: Any) -> Iterator[Any]:
    """Yield the result as received, the value inside its envelope, and JSON texts of an MCP server."""
    yield result
    if not is_mcp_server(manifest):
        return
    yield result_value(manifest, result)
    for block in _entries(_as_mapping(result).get("content")) or ():
        for text in (_as_mapping(block).get("text"), _as_mapping(_as_mapping(block).get("resource")).get("text")):
            if isinstance(text, str):
                yield parse_json_text(text)


def parse_json_text(text: str) -> Any:
    """Parse a text as JSON; None if it is not."""
    try:
        return json.loads(text.strip("\ufeff \t\r\n"))
    except ValueError:
        return None  # text for people
    except RecursionError:
        return {"required_actions": text}  # others may be able to parse it, so it must not count as proposing nothing


def _names_in_plan(plan: Any) -> Iterator[str]:
    fields = _as_mapping(plan)
    yield from _names_in_step(fields)
    if "steps" in fields:
        yield from _names_in_steps(fields["steps"])
    elif plan:
        yield _literal_name(plan)


def _names_in_steps(steps: Any) -> Iterator[str]:
    pending = [steps]
    while pending:
        value = pending.pop()
        entries = _entries(value)
        if entries is None:
            yield _literal_name(value)
            continue
        for step in entries:
            yield from _names_in_step(_as_mapping(step)) or [_literal_name(step)]
            pending.append(_as_mapping(step).get("steps"))


def _names_in_suggestions(suggestions: Any) -> Iterator[str]:
    """Yield names in suggestions. They are for people and need not name anything; those that do are proposals."""
    entries = _entries(suggestions)
    if entries is None:
        yield _literal_name(suggestions)
    for suggestion in entries or ():
        fields = _as_mapping(suggestion)
        yield from _names_in_step(fields) or ([] if "text" in fields else [_literal_name(suggestion)])


def _names_in_step(step: dict[str, Any]) -> list[str]:
    return [_literal_name(step[field]) for field in _CALLABLE_KEYS if step.get(field) is not None]


def _literal_name(value: Any) -> str:
    return str(value)[:MAX_NAME_CHARS]


def _as_mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _entries(value: Any) -> list[Any] | None:
    """Return the entries of a list; an empty list for None; None for anything else."""
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    return [] if value is None else None
