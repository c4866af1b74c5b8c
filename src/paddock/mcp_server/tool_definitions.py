"""MCP tool definitions of callables: names, descriptions, schemas, and annotations derived from effects. Pure."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from paddock.gate.permitted_targets import PermittedTarget
from paddock.manifest.effects import Effect
from paddock.mcp_server.results import STRUCTURED_CONTENT, is_object_schema, target_result_field
from paddock.mcp_server.revisions import ProtocolRevision

FULL_NAME_META_KEY: Final = "dev.paddock/name"
EFFECTS_META_KEY: Final = "dev.paddock/effects"
ASKS_META_KEY: Final = "dev.paddock/asks"

# Effects that only add something; any other effect may destroy what was there.
_NON_DESTRUCTIVE_EFFECTS: Final = frozenset(
    {Effect.READ_ONLY.value, Effect.PRODUCE_OUTCOME.value, Effect.TEMP_WRITE.value}
)
_OPEN_WORLD_EFFECTS: Final = frozenset(
    {Effect.EXTERNAL_SEND.value, Effect.EXTERNAL_CALL.value, Effect.WEBHOOK_EMIT.value, Effect.UNKNOWN.value}
)
_HEADER_KEYWORD: Final = "x-mcp-header"


def define_tool(permitted: PermittedTarget, name: str, revision: ProtocolRevision) -> dict[str, Any]:
    """Build the `tools/list` entry of a callable."""
    target = permitted.target
    spec = target.spec
    definition: dict[str, Any] = {
        "name": name,
        "description": spec.description,
        "inputSchema": _input_schema(target.schemas.input),
        "_meta": {
            FULL_NAME_META_KEY: _full_name(permitted),
            EFFECTS_META_KEY: list(target.effects),
            ASKS_META_KEY: permitted.needs_approval,
        },
    }
    if revision.audio:  # annotations were introduced in the same revision
        definition["annotations"] = tool_annotations(target.effects, spec.title)
    if revision.structured_content:
        if spec.title:
            definition["title"] = spec.title
        schema = _output_schema(permitted, revision)
        if schema is not None:
            definition["outputSchema"] = schema
    return definition


def tool_annotations(effects: tuple[str, ...], title: str = "") -> dict[str, Any]:
    """Derive annotations from the declared effects that a person granted.

    Annotations of the server itself are not passed on.
    """
    read_only = effects == (Effect.READ_ONLY.value,)
    hints: dict[str, Any] = {"title": title} if title else {}
    hints["readOnlyHint"] = read_only
    if not read_only:
        hints["destructiveHint"] = not _NON_DESTRUCTIVE_EFFECTS.issuperset(effects)
        hints["idempotentHint"] = False
    hints["openWorldHint"] = not _OPEN_WORLD_EFFECTS.isdisjoint(effects)
    return hints


def _full_name(permitted: PermittedTarget) -> str:
    target = permitted.target
    plugin, callable_name = target.key.plugin, target.spec.name
    return plugin if callable_name == plugin else f"{plugin}.{callable_name}"


def _input_schema(schema: Any) -> dict[str, Any]:
    """Return the input schema as an object schema, as the protocol requires.

    The `x-mcp-header` keyword is removed: a server's request to mirror parameters in headers is meant for us, and
    nobody between the client and us needs it.
    """
    plain = cast("dict[str, Any]", _strip_header_keyword(schema)) if isinstance(schema, dict) else {}
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _strip_header_keyword(schema: Any) -> Any:
    return _strip_from_value(schema) if _HEADER_KEYWORD.encode() in orjson.dumps(schema) else schema


def _strip_from_value(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _strip_from_value(inner) for key, inner in fields.items() if key != _HEADER_KEYWORD}
    return [_strip_from_value(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


def _output_schema(permitted: PermittedTarget, revision: ProtocolRevision) -> dict[str, Any] | None:
    """Return the schema of the structured content; None if it is unknown."""
    schema = permitted.target.schemas.output
    if not isinstance(schema, dict) or not schema:
        return None
    if is_object_schema(cast("dict[str, Any]", schema)):
        return cast("dict[str, Any]", schema)
    if target_result_field(permitted.target) == STRUCTURED_CONTENT:  # of an MCP server, passed on unchanged
        return cast("dict[str, Any]", schema) if revision.non_object_output else None
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}
