"""What an agent's answer wants others to do: every name in it of something that could be called. Pure.

The contract has two places for that, `required_actions` and the steps of a `proposed_plan`. They are looked for
wherever they stand in the answer, since whoever carries a plan out may unwrap more than we do. What stands there in
another shape than the contract's is given as it is written: nothing is on a whitelist that is no name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from paddock.manifest.model import Manifest
from paddock.plugins.dialects.envelope import is_mcp_server, result_value

MAX_NAME_CHARS: Final = 1_000  # characters; nothing on a whitelist is longer
_CALLABLE_KEYS: Final = ("operator", "action", "tool", "agent", "adapter", "plugin", "callable", "function")
"""The fields of a step that say what is to be run. Which of them is obeyed is not ours to say, so all of them count."""


def proposed_callables(manifest: Manifest, result: Any) -> Iterator[str]:
    """Everything that this answer of an agent proposes, some of it more than once."""
    for answer in _candidate_values(manifest, result):
        yield from _names_in_steps(_as_mapping(answer).get("steps"))  # a plan without its wrapping
        waiting = [answer]
        while waiting:
            value = waiting.pop()
            fields = _as_mapping(value)
            yield from _names_in_steps(fields.get("required_actions"))
            yield from _names_in_plan(fields.get("proposed_plan"))
            yield from _names_in_suggestions(fields.get("next_step_suggestions"))
            waiting += fields.values() if fields else _entries(value) or ()


def _candidate_values(manifest: Manifest, result: Any) -> Iterator[Any]:
    """The answer as it came, what is inside its envelope, and what an MCP server says in a text that is JSON."""
    yield result
    if not is_mcp_server(manifest):
        return
    yield result_value(manifest, result)
    for block in _entries(_as_mapping(result).get("content")) or ():
        for text in (_as_mapping(block).get("text"), _as_mapping(_as_mapping(block).get("resource")).get("text")):
            if isinstance(text, str):
                yield parse_json_text(text)


def parse_json_text(text: str) -> Any:
    """What a text says that is JSON; None where it is another."""
    try:
        return json.loads(text.strip("\ufeff \t\r\n"))
    except ValueError:
        return None  # words for people
    except RecursionError:
        return {"required_actions": text}  # others may be able to read it, so nobody is told that it proposes nothing


def _names_in_plan(plan: Any) -> Iterator[str]:
    fields = _as_mapping(plan)
    yield from _names_in_step(fields)
    if "steps" in fields:
        yield from _names_in_steps(fields["steps"])
    elif plan:
        yield _literal_name(plan)


def _names_in_steps(steps: Any) -> Iterator[str]:
    waiting = [steps]
    while waiting:
        some = waiting.pop()
        entries = _entries(some)
        if entries is None:
            yield _literal_name(some)
            continue
        for step in entries:
            yield from _names_in_step(_as_mapping(step)) or [_literal_name(step)]
            waiting.append(_as_mapping(step).get("steps"))


def _names_in_suggestions(suggestions: Any) -> Iterator[str]:
    """Suggestions are for people, so they need not name anything; those that do are proposals."""
    entries = _entries(suggestions)
    if entries is None:
        yield _literal_name(suggestions)
    for one in entries or ():
        fields = _as_mapping(one)
        yield from _names_in_step(fields) or ([] if "text" in fields else [_literal_name(one)])


def _names_in_step(step: dict[str, Any]) -> list[str]:
    return [_literal_name(step[field]) for field in _CALLABLE_KEYS if step.get(field) is not None]


def _literal_name(value: Any) -> str:
    return str(value)[:MAX_NAME_CHARS]


def _as_mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _entries(value: Any) -> list[Any] | None:
    """The entries of a list, none where there is nothing at all; None where it is something else."""
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    return [] if value is None else None
