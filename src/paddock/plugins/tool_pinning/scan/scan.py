"""The words of an installed plugin and the names of its neighbours, read from the rows; what is odd about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddock.core.events.tool_definitions import PluginFlagged, SuspiciousTextHint
from paddock.core.ids import Tenant
from paddock.manifest.model import Manifest
from paddock.plugins.store.lookup import load_schema
from paddock.plugins.store.rows import VersionRow, current_versions
from paddock.plugins.tool_pinning.normalize import TOOL
from paddock.plugins.tool_pinning.scan.collisions import NameIndex, PluginNames
from paddock.plugins.tool_pinning.scan.definition_text import (
    ScannedDefinition,
    TextScanResult,
    manifest_definitions,
    scan_definitions,
)
from paddock.plugins.tool_pinning.scan.findings import ScanFinding, sample_by_flag
from paddock.store.database import Transaction

MAX_RECORDED_FINDINGS = 50  # hints in one event
_CALLABLE_KEYS = ("execute", "tools", "actions", "methods")  # where a manifest has them


@dataclass(frozen=True, slots=True)
class PluginScan:
    """What hints are made of. They are worked out when they are asked for, and no sooner: the store must not wait.

    Args:
        manifest: What its package says.
        root: Where the package is, for schemas that are files.
        everybody: The names of all that is installed.
        listed: What its server says: kind, name and canonical form of each.
    """

    manifest: Manifest
    root: Path
    installed_names: tuple[PluginNames, ...] = ()
    listed: tuple[tuple[str, str, str], ...] = ()

    def scan_own_texts(self) -> TextScanResult:
        """What is known of its words without looking at others."""
        served = {(kind, name) for kind, name, _ in self.listed}
        declared = manifest_definitions(self.manifest, lambda schema: load_schema(schema, self.root))
        effects = {spec.name: spec.effects for spec in self.manifest.callables}
        words = (*(one for one in declared if (one.kind, one.name) not in served), *listed_texts(self.listed, effects))
        return scan_definitions(self.manifest.name, self.manifest.title, words)

    def find_all(self) -> tuple[ScanFinding, ...]:
        """What is odd about its words, by themselves and beside others."""
        own = self.scan_own_texts()
        return own.findings + find_collisions(own, self.installed_names)


def find_collisions(own: TextScanResult, everybody: Iterable[PluginNames]) -> tuple[ScanFinding, ...]:
    """What is odd about a plugin's words beside those of others."""
    return NameIndex(everybody).find_collisions(own)


def load_scan(tx: Transaction, tenant: Tenant, manifest: Manifest, root: Path, *, accepted: bool = False) -> PluginScan:
    """An installed plugin.

    Args:
        tx: Where the rows are.
        tenant: Whose.
        manifest: Of the version in use.
        root: Where its files are.
        accepted: Whether only what somebody accepted counts; otherwise what its server says now.
    """
    rows = tx.all(
        "SELECT kind, name, standing, definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? "
        "AND standing <> 'gone' ORDER BY kind DESC, name",
        (tenant, manifest.name),
    )
    if accepted:
        listed = [(row["kind"], row["name"], row["definition"]) for row in rows if row["standing"] == "accepted"]
        return PluginScan(manifest, root, (), tuple(listed))
    said = tuple((row["kind"], row["name"], row["waiting"] or row["definition"]) for row in rows)
    return PluginScan(manifest, root, find_installed_names(tx, tenant), said)


def listed_texts(
    definitions: Iterable[tuple[str, str, str]], effects: Mapping[str, Any] | None = None
) -> Iterator[ScannedDefinition]:
    """What a server listed: kind, name and canonical form of each; what has no form is left out."""
    for kind, name, text in definitions:
        if text:
            yield ScannedDefinition(kind, name, json.loads(text), (effects or {}).get(name) if kind == TOOL else None)


def find_installed_names(tx: Transaction, tenant: Tenant) -> tuple[PluginNames, ...]:
    """What every installed plugin and its tools are called, as a tenant knows them."""
    rows = tx.all(
        "SELECT plugin, name FROM plugin_definitions WHERE tenant = ? AND kind = ? AND standing <> 'gone' "
        "ORDER BY name",
        (tenant, TOOL),
    )
    listed: dict[str, list[str]] = {}
    for row in rows:
        listed.setdefault(row["plugin"], []).append(row["name"])
    return collect_names(current_versions(tx), listed)


def collect_names(versions: Mapping[str, VersionRow], listed: Mapping[str, Iterable[str]]) -> tuple[PluginNames, ...]:
    """The same, where the rows are at hand: the versions in use, and the tools that servers listed."""
    return tuple(
        add_listed_tools(declared_names(row), listed.get(plugin, ())) for plugin, row in sorted(versions.items())
    )


def declared_names(row: VersionRow) -> PluginNames:
    """What a version and its callables are called by its manifest."""
    tools = [str(one["name"]) for key in _CALLABLE_KEYS for one in row.document.get(key, ()) if "name" in one]
    return PluginNames(row.plugin, str(row.document.get("title", "")), tuple(tools))


def add_listed_tools(names: PluginNames, listed: Iterable[str]) -> PluginNames:
    """With the tools that its server listed."""
    return replace(names, tools=tuple(dict.fromkeys([*names.tools, *listed])))


def flagged_event(plugin: str, occasion: str, hints: Iterable[ScanFinding]) -> PluginFlagged:
    """What is recorded of hints; of very many only some in full."""
    told = tuple(hints)
    shown = sample_by_flag(told, MAX_RECORDED_FINDINGS, lambda hint: hint.flag)
    odd = tuple(SuspiciousTextHint(one.kind, one.name, one.flag.value, one.where, one.words, one.why) for one in shown)
    return PluginFlagged(
        name=plugin, occasion=occasion, flags=tuple(sorted({one.flag.value for one in told})), hints=odd
    )
