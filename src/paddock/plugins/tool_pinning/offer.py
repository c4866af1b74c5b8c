"""Decides which tools of a server may be called, and builds the errors for those that may not. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import Denied, NotFound, PaddockError, PluginError
from paddock.core.ids import Tenant
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.tool_pinning.normalize import TOOL, DefinitionStatus, UnusableReason
from paddock.plugins.tool_pinning.rows import DefinitionRow
from paddock.plugins.tool_pinning.tool_trust import NO_TRUST, ToolTrust, apply_trust

# Turns a tool's definition into a callable, or returns why it cannot be one.
ToolReader: TypeAlias = Callable[[Any], CallableSpec | UnusableReason]


class WithheldDefinition(Struct, frozen=True):
    """A listed tool or other definition that may not be used."""

    standing: DefinitionStatus
    reason: str
    repair: str = ""
    kind: str = TOOL

    def unavailable_error(self, plugin: str, name: str, tenant: Tenant) -> PaddockError:
        """Build the error for a caller or reader."""
        is_tool = self.kind == TOOL
        details = {"plugin": plugin, self.kind: name, "standing": self.standing.value}
        match self.standing:
            case DefinitionStatus.BAD:
                return PluginError(
                    f"{plugin} {name} cannot be used: {self.reason}",
                    code="tool.bad" if is_tool else "definition.bad",
                    hint=self.repair,
                    details=details,
                )
            case DefinitionStatus.GONE:
                return NotFound(
                    f"{plugin} no longer offers {name}",
                    code="tool.gone" if is_tool else "definition.gone",
                    action=Action.of("plugin.show", plugin=plugin, tenant=tenant),
                    details=details,
                )
            case _:
                return Denied(
                    f"the definition of {plugin} {name} has to be accepted first: {self.reason}",
                    code="tool.quarantined" if is_tool else "definition.quarantined",
                    action=Action.of("plugin.accept", plugin=plugin, name=name, tenant=tenant),
                    details=details,
                )


class OfferedTools(Struct, frozen=True):
    """The tools of a server: those that may be called, and those that are withheld."""

    callables: tuple[CallableSpec, ...]
    withheld: Mapping[str, WithheldDefinition]


def offer_tools(
    manifest: Manifest,
    rows: Sequence[DefinitionRow],
    texts: Mapping[str, str],
    read: ToolReader,
    trust: ToolTrust = NO_TRUST,
) -> OfferedTools:
    """Split a server's recorded tools into callable and withheld ones.

    Args:
        manifest: The plugin's manifest; its declaration for a tool of the same name overrides the server's.
        rows: The plugin's tools.
        texts: The accepted definitions by name.
        read: Turns a definition into a callable.
        trust: What a person takes the server's word for.
    """
    declared = {spec.name: spec for spec in manifest.callables}
    callables: list[CallableSpec] = []
    withheld: dict[str, WithheldDefinition] = {}
    for row in rows:
        if row.standing is not DefinitionStatus.ACCEPTED or row.name not in texts:
            withheld[row.name] = WithheldDefinition(row.standing, row.reason, row.repair)
            continue
        # Parsed again: another version of Paddock may accept what this one does not, and the reverse.
        spec = read(json.loads(texts[row.name]))
        if isinstance(spec, CallableSpec):
            callables.append(apply_trust(apply_manifest(spec, declared.get(row.name)), trust))
        else:
            withheld[row.name] = WithheldDefinition(DefinitionStatus.BAD, spec.reason, spec.repair)
    return OfferedTools(tuple(callables), withheld)


def apply_manifest(spec: CallableSpec, declared: CallableSpec | None) -> CallableSpec:
    """Override a server's tool with the manifest's declaration: people read and signed that, no one signs a server."""
    if declared is None:
        return spec
    return replace(
        spec,
        effects=declared.effects,
        policy_tags=declared.policy_tags,
        required_scopes=declared.required_scopes,
        requires_approval=declared.requires_approval,
        timeout_sec=declared.timeout_sec,
    )
