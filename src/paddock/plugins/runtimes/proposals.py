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
from paddock.plugins.runtimes.envelopes import checked_part, speaks_mcp

LONGEST_NAME: Final = 1_000  # characters; nothing on a whitelist is longer
_NAMES: Final = ("operator", "action", "tool", "agent", "adapter", "plugin", "callable", "function")
"""The fields of a step that say what is to be run. Which of them is obeyed is not ours to say, so all of them count."""


def proposed(manifest: Manifest, result: Any) -> Iterator[str]:
    """Everything that this answer of an agent proposes, some of it more than once."""
    for answer in _answers(manifest, result):
        yield from _steps(_fields(answer).get("steps"))  # a plan without its wrapping
        waiting = [answer]
        while waiting:
            value = waiting.pop()
            fields = _fields(value)
            yield from _steps(fields.get("required_actions"))
            yield from _planned(fields.get("proposed_plan"))
            yield from _suggested(fields.get("next_step_suggestions"))
            waiting += fields.values() if fields else _entries(value) or ()


def _answers(manifest: Manifest, result: Any) -> Iterator[Any]:
    """The answer as it came, what is inside its envelope, and what an MCP server says in a text that is JSON."""
    yield result
    if not speaks_mcp(manifest):
        return
    yield checked_part(manifest, result)
    for block in _entries(_fields(result).get("content")) or ():
        for text in (_fields(block).get("text"), _fields(_fields(block).get("resource")).get("text")):
            if isinstance(text, str):
                yield json_in(text)


def json_in(text: str) -> Any:
    """What a text says that is JSON; None where it is another."""
    try:
        return json.loads(text.strip("\ufeff \t\r\n"))
    except ValueError:
        return None  # words for people
    except RecursionError:
        return {"required_actions": text}  # others may be able to read it, so nobody is told that it proposes nothing


def _planned(plan: Any) -> Iterator[str]:
    fields = _fields(plan)
    yield from _named(fields)
    if "steps" in fields:
        yield from _steps(fields["steps"])
    elif plan:
        yield _written(plan)


def _steps(steps: Any) -> Iterator[str]:
    waiting = [steps]
    while waiting:
        some = waiting.pop()
        entries = _entries(some)
        if entries is None:
            yield _written(some)
            continue
        for step in entries:
            yield from _named(_fields(step)) or [_written(step)]
            waiting.append(_fields(step).get("steps"))


def _suggested(suggestions: Any) -> Iterator[str]:
    """Suggestions are for people, so they need not name anything; those that do are proposals."""
    entries = _entries(suggestions)
    if entries is None:
        yield _written(suggestions)
    for one in entries or ():
        fields = _fields(one)
        yield from _named(fields) or ([] if "text" in fields else [_written(one)])


def _named(step: dict[str, Any]) -> list[str]:
    return [_written(step[field]) for field in _NAMES if step.get(field) is not None]


def _written(value: Any) -> str:
    return str(value)[:LONGEST_NAME]


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _entries(value: Any) -> list[Any] | None:
    """The entries of a list, none where there is nothing at all; None where it is something else."""
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    return [] if value is None else None
