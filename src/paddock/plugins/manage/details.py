"""Loads everything there is to know about one installed plugin."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Struct

from paddock.core.action import ActionJson
from paddock.core.errors import MistakeJson, Problem
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.manifest.consent_text import ConsentSection, consent_sections
from paddock.manifest.model import Dialect, Manifest, PluginKind
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.read import DirectoryFiles
from paddock.manifest.rules.dangers import Danger, DangerJson, find_dangers
from paddock.manifest.rules.readiness import find_blockers
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.install.path_checks import unreadable_paths_here
from paddock.plugins.package.tree import PackageTree, TreeDiff, verify_tree
from paddock.plugins.store.listing import InstalledState, repair_of
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import (
    Grant,
    PluginRow,
    VersionRow,
    all_aliases,
    find_grant,
    find_version,
    tree_of,
    versions_of,
)
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.documents import accepted_instructions
from paddock.plugins.tool_pinning.normalize import TOOL, DefinitionStatus
from paddock.plugins.tool_pinning.rows import DefinitionJson, DefinitionRow, definitions_of
from paddock.plugins.tool_pinning.scan.findings import HintJson
from paddock.plugins.tool_pinning.tools import PluginTools, ToolJson, read_version_tools
from paddock.plugins.trust.signature import SignatureState
from paddock.plugins.trust.trusted_keys import TrustedKeyRow, TrustTier, describe_signer, list_trusted_keys
from paddock.store.database import Transaction


class PluginFactsJson(TypedDict):
    """The facts about an installed plugin."""

    name: str
    title: str
    version: str
    state: InstalledState
    enabled: bool
    given_up: Annotated[str, "Why the daemon disabled it; empty if it did not."]
    repair: str
    repair_action: ActionJson | None
    pinned: str | None
    description: str
    author: str
    license: str
    homepage: str
    kind: PluginKind
    dialect: Dialect
    tier: TrustTier
    trust_claim: str | None
    signature: str
    source: str
    digest: Annotated[str, "As `sha256:…`."]
    installed_at: DateTime
    versions: list[str]
    aliases: list[str]
    capabilities: list[str]
    callables: list[str]
    waiting: Annotated[NonNegativeInt, "The number of definitions that wait for a person."]


class TreeDiffJson(TypedDict):
    """The files that differ from the installed package."""

    changed: list[str]
    missing: list[str]
    added: list[str]


class ConsentSectionJson(TypedDict):
    """A section of the consent screen."""

    title: str
    lines: list[str]


class PluginDetailsJson(PluginFactsJson):
    """The details of an installed plugin."""

    difference: TreeDiffJson
    dangers: Annotated[list[DangerJson], "Its dangerous permissions."]
    sections: list[ConsentSectionJson]
    obstacles: Annotated[list[MistakeJson], "Why it cannot be enabled."]
    warnings: list[MistakeJson]
    tools: list[ToolJson]
    hints: list[HintJson]
    definitions: list[DefinitionJson]
    instructions: Annotated[str, "The accepted instructions of its server for models."]


class PluginDetails(Struct, frozen=True):
    """The details of one plugin, for a person to read."""

    facts: PluginFactsJson
    sections: tuple[ConsentSection, ...]
    obstacles: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    difference: TreeDiff
    definitions: tuple[DefinitionRow, ...]  # definitions of its server
    tools: PluginTools
    dangers: tuple[Danger, ...] = ()
    instructions: str = ""  # its accepted instructions for models

    def changed_files(self) -> list[str]:
        """Return what happened to the files of a modified plugin, one line each."""
        difference = self.difference
        paths_by_change = {"changed": difference.changed, "missing": difference.missing, "added": difference.added}
        return [f"{change} {path}" for change, paths in paths_by_change.items() for path in paths]

    def to_value(self) -> PluginDetailsJson:
        findings = self.tools.scan_findings()
        return {
            **self.facts,
            "difference": {
                "changed": list(self.difference.changed),
                "missing": list(self.difference.missing),
                "added": list(self.difference.added),
            },
            "dangers": [danger.to_value() for danger in self.dangers],
            "sections": [{"title": one.title, "lines": list(one.lines)} for one in self.sections],
            "obstacles": [problem.to_dict() for problem in self.obstacles],
            "warnings": [problem.to_dict() for problem in self.warnings],
            "tools": list(self.tools.values(findings)),
            "hints": [hint.to_value() for hint in findings],
            "definitions": [row.to_value() for row in self.definitions],
            "instructions": self.instructions,
        }


class _DetailRows(Struct, frozen=True):
    plugin: PluginRow
    current: VersionRow
    versions: list[VersionRow]
    grant: Grant | None
    keys: list[TrustedKeyRow]
    aliases: list[str]
    tree: PackageTree
    definitions: list[DefinitionRow]
    instructions: str
    tools: PluginTools


def load_details(store: PluginStore, name: str) -> PluginDetails:
    """Load a plugin's details. Its files are read and compared, not only their stats.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """
    rows = store.database.read(lambda tx: _read_rows(tx, store, name))
    row = rows.current
    root = ensure_local_files(store, row)
    verdict = verify_tree(root, row.digest, expected=rows.tree)
    intact = verdict.intact
    manifest = manifest_of(row)
    signature, signer_text, tier, _ = describe_signer(row, {key.key_id: key.label for key in rows.keys}, intact=intact)
    enabled = bool(rows.grant and rows.grant.enabled)
    state = InstalledState.MODIFIED if not intact else InstalledState.ENABLED if enabled else InstalledState.DISABLED
    repair, repair_action = repair_of(row.plugin, state)
    facts: PluginFactsJson = {
        "name": row.plugin,
        "title": manifest.title,
        "version": row.version,
        "state": state,
        "enabled": enabled,
        "given_up": rows.grant.given_up if rows.grant and not enabled else "",
        "repair": repair,
        "repair_action": repair_action.to_json() if repair_action else None,
        "pinned": rows.plugin.pinned_version,
        "description": manifest.description,
        "author": manifest.author,
        "license": manifest.license,
        "homepage": manifest.homepage,
        "kind": manifest.kind,
        "dialect": manifest.dialect,
        "tier": tier,
        "trust_claim": manifest.trust_claim,
        "signature": f"{signature.value}: {signer_text}",
        "source": row.source.describe(),
        "digest": row.digest,
        "installed_at": row.installed_at,
        "versions": [version.version for version in rows.versions],
        "aliases": rows.aliases,
        "capabilities": [str(capability) for capability in manifest.capabilities],
        "callables": _callable_names(manifest, rows.definitions),
        "waiting": sum(one.standing is DefinitionStatus.QUARANTINED for one in rows.definitions),
    }
    blockers = tuple(find_blockers(manifest, DirectoryFiles(root)))
    warnings = tuple(unreadable_paths_here(manifest.capabilities))
    return PluginDetails(
        facts,
        tuple(consent_sections(manifest)),
        blockers,
        warnings,
        verdict.difference,
        tuple(rows.definitions),
        rows.tools,
        find_dangers(manifest, requested_capabilities(manifest), trusted=signature is SignatureState.VERIFIED),
        rows.instructions,
    )


def _callable_names(manifest: Manifest, definitions: list[DefinitionRow]) -> list[str]:
    """Return the callables; for an MCP server that listed its definitions, the accepted tools."""
    if not (definitions and is_mcp_server(manifest)):
        return [spec.name for spec in manifest.callables]
    return [one.name for one in definitions if one.kind == TOOL and one.standing is DefinitionStatus.ACCEPTED]


def _read_rows(tx: Transaction, store: PluginStore, name: str) -> _DetailRows:
    plugin = require_plugin(tx, name)
    current = find_version(tx, plugin.name, plugin.current_version)
    if current is None:
        raise pinned_version_missing_error(plugin)
    aliases = [alias for alias, target in all_aliases(tx).items() if target == plugin.name]
    return _DetailRows(
        plugin,
        current,
        versions_of(tx, plugin.name),
        find_grant(tx, store.tenant, plugin.name),
        list_trusted_keys(tx),
        aliases,
        tree_of(tx, current.plugin, current.version),
        definitions_of(tx, store.tenant, plugin.name),
        accepted_instructions(tx, store, plugin.name),
        read_version_tools(tx, store, current, manifest_of(current)),
    )
