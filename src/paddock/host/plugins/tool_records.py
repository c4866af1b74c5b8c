"""Builds catalogue entries of servers from their recorded definitions: no server has to run for that."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.ids import PluginName, Tenant
from paddock.gate.catalogue.documents import DocumentIndex, documents_from_definitions
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import PROMPT, RESOURCE, TEMPLATE, TOOL, UnusableReason
from paddock.plugins.tool_pinning.offer import WithheldDefinition, offer_tools
from paddock.plugins.tool_pinning.rows import (
    DefinitionRow,
    accepted_texts,
    definitions_of,
    definitions_of_kind,
    fingerprints_of_other_kinds,
    listed_plugins,
)
from paddock.plugins.tool_pinning.tool_trust import ToolTrust, ToolTrustRow, all_trust, trust_in_force, trust_of
from paddock.runtime.deployment import Deployment
from paddock.store.database import Transaction


class ToolRecords(Struct, frozen=True):
    """The recorded tools of one plugin's server."""

    met: bool = False
    tools: tuple[DefinitionRow, ...] = ()
    others: tuple[tuple[str, ...], ...] = ()  # fingerprints of its prompts and documents
    trust: tuple[ToolTrustRow, ...] = ()  # what people take, or took, its word for

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Changes whenever the set of usable tools, prompts or documents does."""
        tools = ((row.name, row.standing, row.hash, row.reason, row.repair) for row in self.tools)
        return (self.met, self.others, self.trust, *tools)

    def trust_in(self, digest: str) -> ToolTrust:
        """Return what a person takes a version of the server at its word for."""
        return trust_in_force(self.trust, digest, {row.name: row.hash for row in self.tools})


def read_all_tool_records(tx: Transaction) -> dict[tuple[Tenant, str], ToolRecords]:
    """Read the tool records of every plugin that was discovered or is trusted, by tenant and plugin."""
    tools, others, trust = definitions_of_kind(tx, TOOL), fingerprints_of_other_kinds(tx, TOOL), all_trust(tx)
    listed = listed_plugins(tx)
    return {
        key: ToolRecords(
            key in listed, tuple(tools.get(key, ())), tuple(sorted(others.get(key, ()))), trust.get(key, ())
        )
        for key in listed | trust.keys()
    }


def read_tool_records(tx: Transaction, store: PluginStore, plugin: str) -> ToolRecords:
    """Read the tool records of one plugin."""
    rows = definitions_of(tx, store.tenant, plugin)
    others = sorted((row.kind, row.name, row.standing.value, row.hash or "") for row in rows if row.kind != TOOL)
    trust = trust_of(tx, store.tenant, plugin)
    return ToolRecords(bool(rows), tuple(row for row in rows if row.kind == TOOL), tuple(others), trust)


def build_server_entry(
    store: PluginStore, deployment: Deployment, tool_records: ToolRecords, aliases: tuple[str, ...]
) -> CatalogueEntry:
    """Build a server's catalogue entry: its accepted tools, its documents, and the names of withheld definitions.

    Before discovery it has what its manifest declares; the definitions are requested once the server runs.
    """
    manifest = deployment.manifest
    if not tool_records.met:
        return CatalogueEntry(deployment.key, manifest, {}, aliases, dynamic=True, discovered=False)
    plugin = PluginName(deployment.name)
    texts, documents = store.database.read(
        lambda tx: (accepted_texts(tx, store.tenant, plugin, TOOL), _server_documents(tx, store, manifest))
    )
    trust = tool_records.trust_in(deployment.key.digest)
    offer = offer_tools(manifest, tool_records.tools, texts, parse_tool, trust)
    schemas = {
        spec.name: CallableSchemas(spec.input_schema or {}, spec.output_schema or {}) for spec in offer.callables
    }
    return CatalogueEntry(
        deployment.key,
        replace(manifest, callables=offer.callables),
        schemas,
        aliases,
        dynamic=True,
        withheld=offer.withheld,
        documents=documents,
        trust=trust,
    )


def _server_documents(tx: Transaction, store: PluginStore, manifest: Manifest) -> DocumentIndex:
    texts = {kind: accepted_texts(tx, store.tenant, manifest.name, kind) for kind in (PROMPT, RESOURCE, TEMPLATE)}
    withheld = {
        (row.kind, row.name): WithheldDefinition(row.standing, row.reason, row.repair, row.kind)
        for row in definitions_of(tx, store.tenant, manifest.name)
        if row.kind in texts and row.name not in texts[row.kind]
    }
    return documents_from_definitions(manifest, texts, withheld)


def parse_tool(raw: Any) -> CallableSpec | UnusableReason:
    """Convert a server's tool description to a callable, or return why it cannot be one."""
    # Imported here: a host without MCP servers does not need the parser.
    from paddock.plugins.tool_pinning.mcp_tool import parse_tool

    return parse_tool(raw)


def unusable_reason(raw: Any) -> UnusableReason | None:
    """Return why a tool cannot be a callable; None if it can."""
    parsed = parse_tool(raw)
    return None if isinstance(parsed, CallableSpec) else parsed
