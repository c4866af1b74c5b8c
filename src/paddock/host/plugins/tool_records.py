"""The tools of servers as the rows know them, made entries of the catalogue: no server has to run for that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from paddock.core.ids import PluginName, Tenant
from paddock.gate.catalogue.catalogue import CallableSchemas, CatalogueEntry
from paddock.gate.catalogue.documents import DocumentIndex, documents_from_definitions
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
from paddock.runtime.deployment import Deployment
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class ToolRecords:
    """What is on record of one plugin's tools."""

    met: bool = False
    tools: tuple[DefinitionRow, ...] = ()
    others: tuple[tuple[str, ...], ...] = ()  # what tells its prompts and documents from others

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Changes when what may be called or read does."""
        tools = ((row.name, row.standing, row.hash, row.reason, row.repair) for row in self.tools)
        return (self.met, self.others, *tools)


def read_all_tool_records(tx: Transaction) -> dict[tuple[Tenant, str], ToolRecords]:
    """Of every plugin that was met, by tenant and plugin."""
    tools, others = definitions_of_kind(tx, TOOL), fingerprints_of_other_kinds(tx, TOOL)
    return {
        met: ToolRecords(True, tuple(tools.get(met, ())), tuple(sorted(others.get(met, ()))))
        for met in listed_plugins(tx)
    }


def read_tool_records(tx: Transaction, store: PluginStore, plugin: str) -> ToolRecords:
    """Of one plugin."""
    rows = definitions_of(tx, store.tenant, plugin)
    others = sorted((row.kind, row.name, row.standing.value, row.hash or "") for row in rows if row.kind != TOOL)
    return ToolRecords(bool(rows), tuple(row for row in rows if row.kind == TOOL), tuple(others))


def build_server_entry(
    store: PluginStore, deployment: Deployment, listing: ToolRecords, aliases: tuple[str, ...]
) -> CatalogueEntry:
    """A server's entry: its accepted tools, what it has to read, and the names of what must not be used.

    Before it was met it has what its manifest declares; each is asked for again once the server runs.
    """
    manifest = deployment.manifest
    if not listing.met:
        return CatalogueEntry(deployment.key, manifest, {}, aliases, dynamic=True, discovered=False)
    plugin = PluginName(deployment.name)
    texts, documents = store.database.read(
        lambda tx: (accepted_texts(tx, store.tenant, plugin, TOOL), _server_documents(tx, store, manifest))
    )
    offered = offer_tools(manifest, listing.tools, texts, parse_tool)
    schemas = {
        spec.name: CallableSchemas(spec.input_schema or {}, spec.output_schema or {}) for spec in offered.callables
    }
    return CatalogueEntry(
        deployment.key,
        replace(manifest, callables=offered.callables),
        schemas,
        aliases,
        dynamic=True,
        withheld=offered.withheld,
        documents=documents,
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
    """A tool as a server describes it, made a callable; or why it cannot be one."""
    # Imported here: a host without such servers need not know how they speak.
    from paddock.plugins.tool_pinning.mcp_tool import parse_tool

    return parse_tool(raw)


def unusable_reason(raw: Any) -> UnusableReason | None:
    """Why a tool cannot be a callable; None when it can."""
    read = parse_tool(raw)
    return None if isinstance(read, CallableSpec) else read
