"""Catalogue entry: one plugin that may be called, with the schemas of its callables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from paddock.gate.catalogue.documents import DocumentIndex
from paddock.manifest.model import CallableForm, CallableSpec, Manifest
from paddock.plugins.tool_pinning.normalize import printable_name
from paddock.plugins.tool_pinning.offer import WithheldDefinition
from paddock.plugins.tool_pinning.tool_trust import NO_TRUST, ToolTrust
from paddock.runtime.deployment import InstanceKey


class CallableSchemas(Struct, frozen=True):
    """Input and output schema of one callable, already loaded from package files. `{}` allows everything."""

    input: Any
    output: Any


class CatalogueEntry(Struct, frozen=True):
    """A callable plugin, with the schemas of its callables by name."""

    key: InstanceKey
    manifest: Manifest
    schemas: Mapping[str, CallableSchemas]
    aliases: tuple[str, ...] = ()
    dynamic: bool = False  # its server lists its callables, as far as they are discovered
    discovered: bool = True  # whether the server has listed anything yet
    withheld: Mapping[str, WithheldDefinition] = field(
        default_factory=dict[str, WithheldDefinition]
    )  # by name, in addition to the callables
    documents: DocumentIndex | None = None  # None: those of the manifest
    tier: str = "personal"  # the effective trust tier
    signature: str = "unsigned"  # or the verification status of its signature, or `embedded`, or `remote`
    trust: ToolTrust = NO_TRUST  # what a person takes the plugin's word for
    # Suspicious-text flags by callable name; the empty name holds those of the whole plugin.
    flags: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def flags_for(self, spec: CallableSpec, requested_name: str) -> frozenset[str]:
        """Return the suspicious-text flags of one callable, including those of its plugin."""
        if not self.flags:
            return frozenset()
        is_resource = spec.form is CallableForm.RESOURCE
        name = f"resource:{printable_name(requested_name)}" if is_resource else spec.name
        return self.flags.get("", frozenset[str]()) | self.flags.get(name, frozenset[str]())
