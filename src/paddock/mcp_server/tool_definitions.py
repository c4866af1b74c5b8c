"""A callable as an MCP client reads it: its name, words and schemas, and hints that are made of its effects. Pure."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from paddock.gate.permitted import PermittedTarget
from paddock.manifest.effects import Effect
from paddock.mcp_server.results import STRUCTURED_CONTENT, is_object_schema, target_result_field
from paddock.mcp_server.revisions import ProtocolRevision

FULL_NAME_META_KEY: Final = "dev.paddock/name"
EFFECTS_META_KEY: Final = "dev.paddock/effects"
ASKS_META_KEY: Final = "dev.paddock/asks"

# What only adds something; whatever else a callable may do can undo what was there.
_NON_DESTRUCTIVE_EFFECTS: Final = frozenset(
    {Effect.READ_ONLY.value, Effect.PRODUCE_OUTCOME.value, Effect.TEMP_WRITE.value}
)
_OPEN_WORLD_EFFECTS: Final = frozenset(
    {Effect.EXTERNAL_SEND.value, Effect.EXTERNAL_CALL.value, Effect.WEBHOOK_EMIT.value, Effect.UNKNOWN.value}
)
_HEADER_KEYWORD: Final = "x-mcp-header"


def define_tool(offered: PermittedTarget, name: str, revision: ProtocolRevision) -> dict[str, Any]:
    """What `tools/list` says of one callable."""
    target = offered.target
    spec = target.spec
    told: dict[str, Any] = {
        "name": name,
        "description": spec.description,
        "inputSchema": _input_schema(target.schemas.input),
        "_meta": {
            FULL_NAME_META_KEY: _full_name(offered),
            EFFECTS_META_KEY: list(target.effects),
            ASKS_META_KEY: offered.needs_approval,
        },
    }
    if revision.audio:  # as old as annotations are
        told["annotations"] = tool_annotations(target.effects, spec.title)
    if revision.structured_content:
        if spec.title:
            told["title"] = spec.title
        schema = _output_schema(offered, revision)
        if schema is not None:
            told["outputSchema"] = schema
    return told


def tool_annotations(effects: tuple[str, ...], title: str = "") -> dict[str, Any]:
    """The hints of a callable, by what it declares to do and a person agreed to; what a server says of itself is not
    passed on."""
    reads = effects == (Effect.READ_ONLY.value,)
    hints: dict[str, Any] = {"title": title} if title else {}
    hints["readOnlyHint"] = reads
    if not reads:
        hints["destructiveHint"] = not _NON_DESTRUCTIVE_EFFECTS.issuperset(effects)
        hints["idempotentHint"] = False
    hints["openWorldHint"] = not _OPEN_WORLD_EFFECTS.isdisjoint(effects)
    return hints


def _full_name(offered: PermittedTarget) -> str:
    target = offered.target
    plugin, own = target.key.plugin, target.spec.name
    return plugin if own == plugin else f"{plugin}.{own}"


def _input_schema(schema: Any) -> dict[str, Any]:
    """Parameters have names, and the protocol wants that said. No parameter is to be mirrored in a header: what a
    server asks for there is asked of us, and nobody between the client and us needs it."""
    plain = cast("dict[str, Any]", _strip_header_keyword(schema)) if isinstance(schema, dict) else {}
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _strip_header_keyword(schema: Any) -> Any:
    return _strip_from_value(schema) if _HEADER_KEYWORD.encode() in orjson.dumps(schema) else schema


def _strip_from_value(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _strip_from_value(inner) for key, inner in fields.items() if key != _HEADER_KEYWORD}
    return [_strip_from_value(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


def _output_schema(offered: PermittedTarget, revision: ProtocolRevision) -> dict[str, Any] | None:
    """What the structured content of its results looks like; None where nobody says."""
    schema = offered.target.schemas.output
    if not isinstance(schema, dict) or not schema:
        return None
    if is_object_schema(cast("dict[str, Any]", schema)):
        return cast("dict[str, Any]", schema)
    if target_result_field(offered.target) == STRUCTURED_CONTENT:  # a server's own words, passed on as they are
        return cast("dict[str, Any]", schema) if revision.non_object_output else None
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}
