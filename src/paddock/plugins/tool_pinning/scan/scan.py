"""Scans an installed plugin: loads its definitions and the names of other plugins from the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

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

MAX_RECORDED_FINDINGS = 50  # findings in one event
_CALLABLE_KEYS = ("execute", "tools", "actions", "methods")  # manifest keys of callables


class PluginScan(Struct, frozen=True):
    """The input of a scan. It is scanned on demand, so that the store need not wait.

    Args:
        manifest: The plugin's manifest.
        root: The package directory, for schemas in files.
        installed_names: The names of all installed plugins.
        listed: The server's definitions: kind, name and canonical form of each.
    """

    manifest: Manifest
    root: Path
    installed_names: tuple[PluginNames, ...] = ()
    listed: tuple[tuple[str, str, str], ...] = ()

    def scan_own_texts(self) -> TextScanResult:
        """Scan its texts without comparing them with others."""
        served = {(kind, name) for kind, name, _ in self.listed}
        declared = manifest_definitions(self.manifest, lambda schema: load_schema(schema, self.root))
        effects = {spec.name: spec.effects for spec in self.manifest.callables}
        definitions = (
            *(one for one in declared if (one.kind, one.name) not in served),
            *listed_texts(self.listed, effects),
        )
        return scan_definitions(self.manifest.name, self.manifest.title, definitions)

    def find_all(self) -> tuple[ScanFinding, ...]:
        """Return all findings, in its texts alone and compared with others."""
        scan = self.scan_own_texts()
        return scan.findings + find_collisions(scan, self.installed_names)


def find_collisions(scan: TextScanResult, installed_names: Iterable[PluginNames]) -> tuple[ScanFinding, ...]:
    """Return the findings for a plugin compared with others."""
    return NameIndex(installed_names).find_collisions(scan)


def load_scan(tx: Transaction, tenant: Tenant, manifest: Manifest, root: Path, *, accepted: bool = False) -> PluginScan:
    """Load the scan input of an installed plugin.

    Args:
        tx: The transaction.
        tenant: The tenant.
        manifest: The manifest of the version in use.
        root: The directory of its files.
        accepted: Whether to scan only accepted definitions; otherwise what its server lists now.
    """
    rows = tx.all(
        "SELECT kind, name, standing, definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? "
        "AND standing <> 'gone' ORDER BY kind DESC, name",
        (tenant, manifest.name),
    )
    if accepted:
        listed = [(row["kind"], row["name"], row["definition"]) for row in rows if row["standing"] == "accepted"]
        return PluginScan(manifest, root, (), tuple(listed))
    current = tuple((row["kind"], row["name"], row["waiting"] or row["definition"]) for row in rows)
    return PluginScan(manifest, root, find_installed_names(tx, tenant), current)


def listed_texts(
    definitions: Iterable[tuple[str, str, str]], effects: Mapping[str, Any] | None = None
) -> Iterator[ScannedDefinition]:
    """Yield a server's definitions for scanning: kind, name and canonical form of each; those without a form are left
    out."""
    for kind, name, text in definitions:
        if text:
            yield ScannedDefinition(kind, name, json.loads(text), (effects or {}).get(name) if kind == TOOL else None)


def find_installed_names(tx: Transaction, tenant: Tenant) -> tuple[PluginNames, ...]:
    """Return the names of every installed plugin and its tools, as a tenant sees them."""
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
    """Collect the names from rows at hand: the versions in use, and the tools that servers listed."""
    return tuple(
        add_listed_tools(declared_names(row), listed.get(plugin, ())) for plugin, row in sorted(versions.items())
    )


def declared_names(row: VersionRow) -> PluginNames:
    """Return the names of a version and its callables in its manifest."""
    tools = [str(one["name"]) for key in _CALLABLE_KEYS for one in row.document.get(key, ()) if "name" in one]
    return PluginNames(row.plugin, str(row.document.get("title", "")), tuple(tools))


def add_listed_tools(names: PluginNames, listed: Iterable[str]) -> PluginNames:
    """Add the tools that its server listed."""
    return replace(names, tools=tuple(dict.fromkeys([*names.tools, *listed])))


def flagged_event(plugin: str, occasion: str, all_findings: Iterable[ScanFinding]) -> PluginFlagged:
    """Build the audit event for findings; of very many it carries only a sample."""
    findings = tuple(all_findings)
    sample = sample_by_flag(findings, MAX_RECORDED_FINDINGS, lambda finding: finding.flag)
    event_hints = tuple(
        SuspiciousTextHint(one.kind, one.name, one.flag.value, one.where, one.words, one.why) for one in sample
    )
    return PluginFlagged(
        name=plugin, occasion=occasion, flags=tuple(sorted({one.flag.value for one in findings})), hints=event_hints
    )
