"""MCP tool definitions of callables: names, descriptions, schemas, and annotations from effects and claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock.gate.permitted_targets import PermittedTarget
from paddock.manifest.effects import Claim, Effect, claim_of, claimed_hint
from paddock.mcp_server.results import STRUCTURED_CONTENT, is_object_schema, target_result_field
from paddock.mcp_server.revisions import ProtocolRevision

FULL_NAME_META_KEY: Final = "dev.paddock/name"
EFFECTS_META_KEY: Final = "dev.paddock/effects"
CLAIM_META_KEY: Final = "dev.paddock/claim"
ASKS_META_KEY: Final = "dev.paddock/asks"

# Effects that only add something; any other effect may destroy what was there.
_NON_DESTRUCTIVE_EFFECTS: Final = frozenset({Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.TEMP_WRITE})
_OPEN_WORLD_EFFECTS: Final = frozenset({Effect.EXTERNAL_SEND, Effect.EXTERNAL_CALL, Effect.WEBHOOK_EMIT})
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
            CLAIM_META_KEY: claim_of(spec.annotations).value,
            ASKS_META_KEY: permitted.needs_approval,
        },
    }
    if revision.audio:  # annotations were introduced in the same revision
        definition["annotations"] = tool_annotations(
            target.effects, spec.annotations, spec.title, trusted=target.trusted_to_read
        )
    if revision.structured_content:
        if spec.title:
            definition["title"] = spec.title
        schema = _output_schema(permitted, revision)
        if schema is not None:
            definition["outputSchema"] = schema
    return definition


def tool_annotations(
    effects: tuple[str, ...], claims: Mapping[str, Any], title: str = "", *, trusted: bool = False
) -> dict[str, Any]:
    """Return the stricter of what is known of a tool and what its server's annotations claim.

    A hint is left out where nothing is known and the server claims the harmless value: clients then assume the strict
    one, as the protocol says, and no claim is published as its opposite.

    Args:
        effects: Its effects, as a person granted them.
        claims: The annotations of its server.
        title: Its title.
        trusted: Whether it counts as read-only because a person takes its server's word for that.
    """
    claim, unknown = claim_of(claims), Effect.UNKNOWN in effects
    known = frozenset(effects) - {Effect.UNKNOWN}
    claims_reading = claim is Claim.READS
    changes = _stricter(
        _is_known(not known <= {Effect.READ_ONLY}, certain=not unknown),
        None if claim is Claim.NOTHING else not claims_reading,
        strict=True,
    )
    hints: dict[str, bool | None] = {"readOnlyHint": None if changes is None else not changes}
    if changes is not False:
        hints["destructiveHint"] = _stricter(
            _is_known(not known <= _NON_DESTRUCTIVE_EFFECTS, certain=not unknown),
            False if claims_reading else claimed_hint(claims, "destructiveHint"),
            strict=True,
        )
        hints["idempotentHint"] = _stricter(
            None, True if claims_reading else claimed_hint(claims, "idempotentHint"), strict=False
        )
    hints["openWorldHint"] = _stricter(
        _is_known(not known.isdisjoint(_OPEN_WORLD_EFFECTS), certain=not unknown and not trusted),
        claimed_hint(claims, "openWorldHint"),
        strict=True,
    )
    published = {name: value for name, value in hints.items() if value is not None}
    return {"title": title, **published} if title else published


def _is_known(harm: bool, *, certain: bool) -> bool | None:
    """Return whether a harm is known to be possible; None if nothing is known of it."""
    return True if harm else False if certain else None


def _stricter(known: bool | None, claimed: bool | None, *, strict: bool) -> bool | None:
    """Combine what is known with a claim; None if only a claim of the harmless value stands for it."""
    if strict in (known, claimed):
        return strict
    return known if known is not None else None if claimed is not None else strict


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
