"""The tools of servers as the rows know them, made entries of the catalogue: no server has to run for that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from paddock.core.ids import PluginName, Tenant
from paddock.gate.catalogue import Entry, Schemas
from paddock.gate.documents import Documents, offered_documents
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.definitions.examining import PROMPT, RESOURCE, TEMPLATE, TOOL, Unusable
from paddock.plugins.definitions.offering import Withheld, offer
from paddock.plugins.definitions.rows import (
    DefinitionRow,
    accepted_texts,
    all_of_kind,
    definitions_of,
    marks_of_others,
    met_plugins,
)
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.supervision.deployment import Deployment
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Listing:
    """What is on record of one plugin's tools."""

    met: bool = False
    tools: tuple[DefinitionRow, ...] = ()
    others: tuple[tuple[str, ...], ...] = ()  # what tells its prompts and documents from others

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Changes when what may be called or read does."""
        tools = ((row.name, row.standing, row.hash, row.reason, row.repair) for row in self.tools)
        return (self.met, self.others, *tools)


def read_listings(tx: Transaction) -> dict[tuple[Tenant, str], Listing]:
    """Of every plugin that was met, by tenant and plugin."""
    tools, others = all_of_kind(tx, TOOL), marks_of_others(tx, TOOL)
    return {
        met: Listing(True, tuple(tools.get(met, ())), tuple(sorted(others.get(met, ())))) for met in met_plugins(tx)
    }


def read_listing(tx: Transaction, store: PluginStore, plugin: str) -> Listing:
    """Of one plugin."""
    rows = definitions_of(tx, store.tenant, plugin)
    others = sorted((row.kind, row.name, row.standing.value, row.hash or "") for row in rows if row.kind != TOOL)
    return Listing(bool(rows), tuple(row for row in rows if row.kind == TOOL), tuple(others))


def listed_entry(store: PluginStore, deployment: Deployment, listing: Listing, aliases: tuple[str, ...]) -> Entry:
    """A server's entry: its accepted tools, what it has to read, and the names of what must not be used.

    Before it was met it has what its manifest declares; each is asked for again once the server runs.
    """
    manifest = deployment.manifest
    if not listing.met:
        return Entry(deployment.key, manifest, {}, aliases, lists_itself=True, met=False)
    plugin = PluginName(deployment.name)
    texts, documents = store.database.read(
        lambda tx: (accepted_texts(tx, store.tenant, plugin, TOOL), _documents(tx, store, manifest))
    )
    offered = offer(manifest, listing.tools, texts, read_tool)
    schemas = {spec.name: Schemas(spec.input_schema or {}, spec.output_schema or {}) for spec in offered.callables}
    return Entry(
        deployment.key,
        replace(manifest, callables=offered.callables),
        schemas,
        aliases,
        lists_itself=True,
        withheld=offered.withheld,
        documents=documents,
    )


def _documents(tx: Transaction, store: PluginStore, manifest: Manifest) -> Documents:
    texts = {kind: accepted_texts(tx, store.tenant, manifest.name, kind) for kind in (PROMPT, RESOURCE, TEMPLATE)}
    withheld = {
        (row.kind, row.name): Withheld(row.standing, row.reason, row.repair, row.kind)
        for row in definitions_of(tx, store.tenant, manifest.name)
        if row.kind in texts and row.name not in texts[row.kind]
    }
    return offered_documents(manifest, texts, withheld)


def read_tool(raw: Any) -> CallableSpec | Unusable:
    """A tool as a server describes it, made a callable; or why it cannot be one."""
    # Imported here: a host without such servers need not know how they speak.
    from paddock.plugins.runtimes.mcp.tools import judge_tool

    return judge_tool(raw)


def unusable(raw: Any) -> Unusable | None:
    """Why a tool cannot be a callable; None when it can."""
    read = read_tool(raw)
    return None if isinstance(read, CallableSpec) else read
