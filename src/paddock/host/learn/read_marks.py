"""The tools that only read by their own word, as a server listed them in a trial. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Annotated, TypedDict

from msgspec.structs import replace

from paddock.host.plugins.tool_records import parse_tool, unusable_reason
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec
from paddock.manifest.permissions import callable_effects
from paddock.plugins.tool_pinning.normalize import TOOL, Definition, NormalizedDefinition, normalize_definitions
from paddock.plugins.tool_pinning.offer import apply_manifest
from paddock.plugins.tool_pinning.tool_trust import ToolTrustRow, may_trust_to_read
from paddock.runtime.deployment import Deployment


class ReadMarkJson(TypedDict):
    """A tool with an unverified read-only mark."""

    tool: str
    hash: Annotated[str, "The hash of its definition."]
    trusted: Annotated[bool, "Whether a person takes its word for the installed version."]


def find_read_marks(
    deployment: Deployment, definitions: Sequence[Definition], trust: Collection[ToolTrustRow]
) -> list[ReadMarkJson]:
    """Return the tools that a person could take at their word, once the plugin is granted what it was tried with."""
    believed = {(row.tool, row.hash) for row in trust if row.is_read_mark_of(deployment.key.digest)}
    return [
        {"tool": one.name, "hash": one.hash, "trusted": (one.name, one.hash) in believed}
        for one in normalize_definitions(definitions, unusable_reason)
        if one.hash is not None and _is_read_mark(deployment, one)
    ]


def _is_read_mark(deployment: Deployment, definition: NormalizedDefinition) -> bool:
    if definition.kind != TOOL or definition.bad is not None:
        return False
    spec = parse_tool(json.loads(definition.text))
    if not isinstance(spec, CallableSpec):
        return False
    declared = next((one for one in deployment.manifest.callables if one.name == spec.name), None)
    spec = apply_manifest(spec, declared)
    granted = replace(deployment.manifest, capabilities=deployment.capabilities)
    return may_trust_to_read(spec) and callable_effects(granted, spec) == (Effect.UNKNOWN,)
