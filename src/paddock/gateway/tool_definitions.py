"""A callable as an MCP client reads it: its name, words and schemas, and hints that are made of its effects. Pure."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from paddock.gate.offering import Offered
from paddock.gateway.revisions import Revision
from paddock.gateway.tool_results import RESULT, field_of, is_object_schema
from paddock.manifest.effects import Effect

FULL_NAME: Final = "dev.paddock/name"
EFFECTS: Final = "dev.paddock/effects"
ASKS: Final = "dev.paddock/asks"

# What only adds something; whatever else a callable may do can undo what was there.
_ADDS: Final = frozenset({Effect.READ_ONLY.value, Effect.PRODUCE_OUTCOME.value, Effect.TEMP_WRITE.value})
_OUTSIDE: Final = frozenset(
    {Effect.EXTERNAL_SEND.value, Effect.EXTERNAL_CALL.value, Effect.WEBHOOK_EMIT.value, Effect.UNKNOWN.value}
)
_MIRRORED: Final = "x-mcp-header"


def definition_of(offered: Offered, name: str, revision: Revision) -> dict[str, Any]:
    """What `tools/list` says of one callable."""
    target = offered.target
    spec = target.spec
    told: dict[str, Any] = {
        "name": name,
        "description": spec.description,
        "inputSchema": _input_schema(target.schemas.input),
        "_meta": {FULL_NAME: _full_name(offered), EFFECTS: list(target.effects), ASKS: offered.asks},
    }
    if revision.audio:  # as old as annotations are
        told["annotations"] = annotations_of(target.effects, spec.title)
    if revision.structured:
        if spec.title:
            told["title"] = spec.title
        schema = _output_schema(offered, revision)
        if schema is not None:
            told["outputSchema"] = schema
    return told


def annotations_of(effects: tuple[str, ...], title: str = "") -> dict[str, Any]:
    """The hints of a callable, by what it declares to do and a person agreed to; what a server says of itself is not
    passed on."""
    reads = effects == (Effect.READ_ONLY.value,)
    hints: dict[str, Any] = {"title": title} if title else {}
    hints["readOnlyHint"] = reads
    if not reads:
        hints["destructiveHint"] = not _ADDS.issuperset(effects)
        hints["idempotentHint"] = False
    hints["openWorldHint"] = not _OUTSIDE.isdisjoint(effects)
    return hints


def _full_name(offered: Offered) -> str:
    target = offered.target
    plugin, own = target.key.plugin, target.spec.name
    return plugin if own == plugin else f"{plugin}.{own}"


def _input_schema(schema: Any) -> dict[str, Any]:
    """Parameters have names, and the protocol wants that said. No parameter is to be mirrored in a header: what a
    server asks for there is asked of us, and nobody between the client and us needs it."""
    plain = cast("dict[str, Any]", _unmirrored(schema)) if isinstance(schema, dict) else {}
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _unmirrored(schema: Any) -> Any:
    return _without(schema) if _MIRRORED.encode() in orjson.dumps(schema) else schema


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _without(inner) for key, inner in fields.items() if key != _MIRRORED}
    return [_without(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


def _output_schema(offered: Offered, revision: Revision) -> dict[str, Any] | None:
    """What the structured content of its results looks like; None where nobody says."""
    schema = offered.target.schemas.output
    if not isinstance(schema, dict) or not schema:
        return None
    if is_object_schema(cast("dict[str, Any]", schema)):
        return cast("dict[str, Any]", schema)
    if field_of(offered.target) == RESULT:  # a server's own words, which are passed on as they are
        return cast("dict[str, Any]", schema) if revision.any_output else None
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}
