"""What came of a call, as an MCP client gets it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock import __version__
from paddock.core.errors import NeedsApproval, PaddockError
from paddock.core.outward import mcp_tool_result
from paddock.gate.catalogue import Target
from paddock.gateway.revisions import Revision
from paddock.plugins.runtimes.envelopes import checked_field, inside, speaks_mcp

SERVER: Final[Mapping[str, Any]] = {"name": "paddock", "title": "Paddock", "version": __version__}
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
ERROR: Final = "dev.paddock/error"
PENDING: Final = "dev.paddock/approval"
RESULT: Final = "structuredContent"

_BLOCKS: Final = frozenset({"text", "image", "resource"})  # which every revision knows


def field_of(target: Target) -> str | None:
    """Where the value is in what a callable gives."""
    return checked_field(target.manifest)


def is_object_schema(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def tool_result(target: Target, result: Any, revision: Revision) -> dict[str, Any]:
    """The result of `tools/call`."""
    told = dict(cast("dict[str, Any]", result)) if speaks_mcp(target.manifest) else _told(target, result)
    if not revision.structured:
        told.pop(RESULT, None)
        told["content"] = [_older(block, revision) for block in told["content"]]
    elif not revision.any_output and not isinstance(told.get(RESULT, {}), dict):
        del told[RESULT]
    return complete(told, revision)


def _told(target: Target, result: Any) -> dict[str, Any]:
    """A value of a plugin that is no MCP server, as text and as data."""
    text = result if isinstance(result, str) else orjson.dumps(result, default=str).decode()
    told: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    value = inside(field_of(target), result)
    schema: Any = target.schemas.output
    wrapped = isinstance(schema, dict) and schema != {} and not is_object_schema(cast("dict[str, Any]", schema))
    if isinstance(value, dict) and not wrapped:
        told[RESULT] = value
    elif wrapped:
        told[RESULT] = {"result": value}
    return told


def _older(block: Any, revision: Revision) -> Any:
    """A piece of content for a client that does not know its kind."""
    fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    kind = fields.get("type")
    if kind in _BLOCKS or (kind == "audio" and revision.audio):
        return fields
    words = f"{fields.get('name') or ''} {fields.get('uri')}".strip() if kind == "resource_link" else f"[{kind}]"
    return {"type": "text", "text": words}


def complete(result: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Any result with what its revision wants in each."""
    if revision.stateless:
        result["resultType"] = "complete"
        result["_meta"] = {**result.get("_meta", {}), SERVER_KEY: SERVER}
    return result


def tool_failure(error: PaddockError, revision: Revision) -> dict[str, Any]:
    """A call that failed, in the form that lets a model read why. The tool's own words where it has some."""
    told = mcp_tool_result(error)
    # Not as structured content: clients check that against the tool's output schema, which speaks of its results.
    told["_meta"] = {ERROR: told.pop(RESULT)}
    own = error.details.get("content") if error.error_code == "tool.failed" else None
    if isinstance(own, list) and own:
        told["_meta"][ERROR]["details"].pop("content", None)
        hint = [{"type": "text", "text": error.hint}] if error.hint else []
        told["content"] = [*(_older(block, revision) for block in cast("list[Any]", own)), *hint]
    return complete(told, revision)


def tool_pending(held: NeedsApproval, link: str, revision: Revision) -> dict[str, Any]:
    """A call that waits for a person: nothing has happened yet, and how to come back for it.

    An error to clients, since what they asked for was not done; models read the words.
    """
    lines = [
        held.message,
        "Nothing has happened yet. The call is made as soon as a person says yes; it does not have to be made again.",
        f"To answer, at a terminal: {held.hint}",
        f"What would be done, for whoever may answer and is signed in: {link}",
        f"Call id: {held.details['call_id']}. The same call again gives its result once there is one.",
    ]
    told: dict[str, Any] = {
        "isError": True,
        "content": [{"type": "text", "text": "\n".join(lines)}],
        "_meta": {PENDING: {**held.details, "link": link}},
    }
    return complete(told, revision)
