"""Everything there is to know about one installed plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.errors import Problem
from paddock.manifest.behaviour import Section, consent_sections
from paddock.manifest.model import Manifest
from paddock.manifest.read import DirectoryFiles
from paddock.manifest.readiness import obstacles
from paddock.plugins.definitions.documents import instructions_of
from paddock.plugins.definitions.examining import TOOL
from paddock.plugins.definitions.rows import DefinitionRow, definitions_of
from paddock.plugins.definitions.standing import Standing
from paddock.plugins.definitions.tools import Tools, recorded_tools
from paddock.plugins.listing import repair_line
from paddock.plugins.local_copy import local_root
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.readable_places import closed_places_here
from paddock.plugins.registry import State, manifest_of, pinned_version_missing, require_plugin
from paddock.plugins.rows import (
    Grant,
    PluginRow,
    VersionRow,
    all_aliases,
    find_grant,
    find_version,
    tree_of,
    versions_of,
)
from paddock.plugins.runtimes.envelopes import speaks_mcp
from paddock.plugins.tree import Difference, Tree, verify_tree
from paddock.plugins.trust import KeyRow, standing_of, trusted_keys
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Details:
    """One plugin, for a person to read."""

    facts: dict[str, Any]
    sections: tuple[Section, ...]
    obstacles: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    difference: Difference
    definitions: tuple[DefinitionRow, ...]  # what its server says of itself
    tools: Tools
    instructions: str = ""  # what it wants models to know, as far as somebody accepted it

    def changed_files(self) -> list[str]:
        """What became of the files of a modified plugin, one line each."""
        found = self.difference
        named = {"changed": found.changed, "missing": found.missing, "added": found.added}
        return [f"{what} {path}" for what, paths in named.items() for path in paths]

    def to_value(self) -> dict[str, Any]:
        hints = self.tools.hints()
        return self.facts | {
            "difference": {
                "changed": list(self.difference.changed),
                "missing": list(self.difference.missing),
                "added": list(self.difference.added),
            },
            "sections": [{"title": one.title, "lines": list(one.lines)} for one in self.sections],
            "obstacles": [problem.to_dict() for problem in self.obstacles],
            "warnings": [problem.to_dict() for problem in self.warnings],
            "tools": list(self.tools.values(hints)),
            "hints": [hint.to_value() for hint in hints],
            "definitions": [row.to_value() for row in self.definitions],
            "instructions": self.instructions,
        }


@dataclass(frozen=True, slots=True)
class _Rows:
    plugin: PluginRow
    current: VersionRow
    versions: list[VersionRow]
    grant: Grant | None
    keys: list[KeyRow]
    aliases: list[str]
    tree: Tree
    definitions: list[DefinitionRow]
    instructions: str
    tools: Tools


def details_of(store: PluginStore, name: str) -> Details:
    """Look a plugin up. Its files are read and compared, not only their stats.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """
    rows = store.database.read(lambda tx: _rows(tx, store, name))
    row = rows.current
    root = local_root(store, row)
    verdict = verify_tree(root, row.digest, expected=rows.tree)
    intact = verdict.intact
    manifest = manifest_of(row)
    signature, words, tier, _ = standing_of(row, {key.key_id: key.label for key in rows.keys}, intact=intact)
    enabled = bool(rows.grant and rows.grant.enabled)
    state = State.MODIFIED if not intact else State.ENABLED if enabled else State.DISABLED
    facts: dict[str, Any] = {
        "name": row.plugin,
        "title": manifest.title,
        "version": row.version,
        "state": state.value,
        "enabled": enabled,
        "given_up": rows.grant.given_up if rows.grant and not enabled else "",
        "repair": repair_line(row.plugin, state),
        "pinned": rows.plugin.pinned_version,
        "description": manifest.description,
        "author": manifest.author,
        "license": manifest.license,
        "homepage": manifest.homepage,
        "kind": manifest.kind.value,
        "dialect": manifest.dialect.value,
        "tier": tier,
        "trust_claim": manifest.trust_claim,
        "signature": f"{signature.value}: {words}",
        "source": row.source.describe(),
        "digest": row.digest,
        "installed_at": row.installed_at,
        "versions": [version.version for version in rows.versions],
        "aliases": rows.aliases,
        "capabilities": [str(capability) for capability in manifest.capabilities],
        "callables": _callables(manifest, rows.definitions),
        "waiting": sum(one.standing is Standing.QUARANTINED for one in rows.definitions),
    }
    stand_in_the_way = tuple(obstacles(manifest, DirectoryFiles(root)))
    warnings = tuple(closed_places_here(manifest.capabilities))
    return Details(
        facts,
        tuple(consent_sections(manifest)),
        stand_in_the_way,
        warnings,
        verdict.difference,
        tuple(rows.definitions),
        rows.tools,
        rows.instructions,
    )


def _callables(manifest: Manifest, definitions: list[DefinitionRow]) -> list[str]:
    """What can be called: of a server that was met, the tools that were accepted."""
    if not (definitions and speaks_mcp(manifest)):
        return [spec.name for spec in manifest.callables]
    return [one.name for one in definitions if one.kind == TOOL and one.standing is Standing.ACCEPTED]


def _rows(tx: Transaction, store: PluginStore, name: str) -> _Rows:
    plugin = require_plugin(tx, name)
    current = find_version(tx, plugin.name, plugin.current_version)
    if current is None:
        raise pinned_version_missing(plugin)
    aliases = [alias for alias, target in all_aliases(tx).items() if target == plugin.name]
    return _Rows(
        plugin,
        current,
        versions_of(tx, plugin.name),
        find_grant(tx, store.tenant, plugin.name),
        trusted_keys(tx),
        aliases,
        tree_of(tx, current.plugin, current.version),
        definitions_of(tx, store.tenant, plugin.name),
        instructions_of(tx, store, plugin.name),
        recorded_tools(tx, store, current, manifest_of(current)),
    )
