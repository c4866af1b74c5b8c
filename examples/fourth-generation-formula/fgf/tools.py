"""The four tools: their definitions as in the manifest, and what they do with checked arguments.

The book's progress belongs to the host's vault. A host lends it with each call (`_meta`, under STATE) and gets it back
the same way, and then nothing stays here. For a client that lends nothing, the last few workflows are kept in memory
until the process ends; serve several people from one process only with a host that lends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from fgf.assessment import assess
from fgf.book import Progress, manuscript, progress_from
from fgf.creed import creed
from fgf.levels import LEVELS

STATE = "paddock/workflow_state"
KEPT_WORKFLOWS = 100


class Refused(Exception):
    """Why a tool cannot do what it was asked, in words for the model."""


class Answer(NamedTuple):
    """A tool's answer for readers and for machines, and what goes back to the host."""

    text: str
    data: dict[str, Any]
    meta: Mapping[str, Any] | None = None


class Tool(NamedTuple):
    definition: dict[str, Any]
    run: Callable[[dict[str, Any], dict[str, Any]], Answer]


_kept: OrderedDict[str, Progress] = OrderedDict()


def assess_transfer_readiness(arguments: dict[str, Any], _meta: dict[str, Any]) -> Answer:
    try:
        found = assess(_list(arguments, "responses"))
    except ValueError as error:
        raise Refused(str(error)) from None
    names = [level.name for level in LEVELS]
    lines = [f"{found.reached} of {len(LEVELS)} levels hold.", ""]
    lines += [
        f"{number}. {name}: {average:g}"
        for number, (name, average) in enumerate(zip(names, found.averages, strict=True), 1)
    ]
    lines += ["", f"Next: {found.next_step}"]
    levels = [{"level": name, "average": average} for name, average in zip(names, found.averages, strict=True)]
    return Answer("\n".join(lines), {"reached": found.reached, "levels": levels, "next_step": found.next_step})


def generate_builders_creed(arguments: dict[str, Any], _meta: dict[str, Any]) -> Answer:
    text = creed(_texts(arguments, "values"), _texts(arguments, "principles"))
    return Answer(text, {"content_type": "text/markdown", "content": text})


def book_writing_question(arguments: dict[str, Any], meta: dict[str, Any]) -> Answer:
    progress = _progress(arguments, meta)
    previous = arguments.get("previous_answer")
    if previous is not None:
        if not isinstance(previous, str):
            raise Refused("previous_answer must be text")
        try:
            progress = progress.answered(previous)
        except ValueError as error:
            raise Refused(str(error)) from None
    state = progress.to_value()
    text = progress.question or "That was the last question. The manuscript can be generated."
    return Answer(text, {"question": progress.question, **_position(state)}, _returned(progress, meta))


def generate_manuscript(arguments: dict[str, Any], meta: dict[str, Any]) -> Answer:
    progress = _progress(arguments, meta)
    try:
        text = manuscript(progress)
    except ValueError as error:
        raise Refused(str(error)) from None
    data = {"content_type": "text/markdown", "content": text, "word_count": len(text.split()), "chapters": len(LEVELS)}
    return Answer(text, data, _returned(progress, meta))


def _position(state: dict[str, Any]) -> dict[str, Any]:
    return {key: state[key] for key in ("current_step", "total_steps", "completed")}


def _progress(arguments: dict[str, Any], meta: dict[str, Any]) -> Progress:
    workflow_id = arguments.get("workflow_id")
    if not isinstance(workflow_id, str) or not 1 <= len(workflow_id) <= 200:
        raise Refused("workflow_id must be text of 1 to 200 characters")
    if STATE not in meta:
        return _kept.get(workflow_id, Progress(workflow_id))
    try:
        return Progress(workflow_id) if meta[STATE] is None else progress_from(workflow_id, meta[STATE])
    except ValueError as error:
        raise Refused(str(error)) from None


def _returned(progress: Progress, meta: dict[str, Any]) -> Mapping[str, Any]:
    """The progress on its way back. A lender sends the key, with null, also when there is nothing to lend yet."""
    if STATE not in meta:
        _kept[progress.workflow_id] = progress
        _kept.move_to_end(progress.workflow_id)
        if len(_kept) > KEPT_WORKFLOWS:
            _kept.popitem(last=False)
    return {STATE: progress.to_value()}


def _list(arguments: dict[str, Any], key: str) -> list[Any]:
    value = arguments.get(key)
    if not isinstance(value, list) or len(cast("list[Any]", value)) > 100:
        raise Refused(f"{key} must be a list of at most 100 entries")
    return cast("list[Any]", value)


def _texts(arguments: dict[str, Any], key: str) -> list[str]:
    entries = _list(arguments, key)
    if not entries or not all(isinstance(entry, str) and entry.strip() for entry in entries):
        raise Refused(f"{key} must be a list of one or more texts")
    return entries


def _define(run: Callable[..., Answer], description: str, required: list[str], **properties: dict[str, str]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool({"name": run.__name__, "description": description, "inputSchema": schema}, run)


TOOLS = {
    tool.definition["name"]: tool
    for tool in (
        _define(
            assess_transfer_readiness,
            "Evaluate user's current transfer readiness across 9 levels",
            ["responses"],
            responses={"type": "array", "description": "User's answers to assessment questions"},
        ),
        _define(
            generate_builders_creed,
            "Create personalized Builder's Creed document",
            ["values", "principles"],
            values={"type": "array", "description": "Core values identified"},
            principles={"type": "array", "description": "Operating principles"},
        ),
        _define(
            book_writing_question,
            "Get next question in book writing flow",
            ["workflow_id"],
            workflow_id={"type": "string"},
            previous_answer={"type": "string"},
        ),
        _define(
            generate_manuscript,
            "Generate complete legacy book from collected answers",
            ["workflow_id"],
            workflow_id={"type": "string"},
        ),
    )
}
