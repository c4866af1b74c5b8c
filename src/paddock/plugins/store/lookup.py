"""Finding installed plugins: resolve by name and constraint, and list.

Nothing is ever called that is not found here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.errors import Conflict, NotFound, OperatorError, PluginError
from paddock.core.semver import Constraint, Version
from paddock.manifest.model import Manifest, Schema, SchemaFile
from paddock.manifest.names import plugin_name_problem
from paddock.manifest.read import DirectoryFiles, read_stored
from paddock.manifest.syntax.document import ParsedDocument
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import (
    PluginRow,
    VersionRow,
    all_plugins,
    delete_alias,
    find_alias,
    find_plugin,
    find_version,
    save_alias,
    versions_of,
)
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction

# Two names for one thing in the Kernel's own text.
BUILT_IN_ALIASES = {"Email.ApplyDraft": "Apply.EmailDraft", "Gmail.SendEmail": "Gmail.Send"}


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """An installed version that was found: its manifest, and where its files are. Compare them before they are used."""

    manifest: Manifest
    digest: str
    root: Path


def manifest_of(row: VersionRow) -> Manifest:
    """The model of an installed version, from the native form that was stored."""
    return read_stored(ParsedDocument(f"{row.plugin} {row.version}", row.document))


def resolve_plugin(store: PluginStore, name: str, constraint: str = "") -> ResolvedVersion:
    """The highest installed version that the constraint allows; without one, the version in use.

    Raises:
        NotFound: no such plugin, or no version of it fits.
        OperatorError: the constraint is malformed.
    """
    row = store.database.read(lambda tx: _resolve_version(tx, name, constraint))
    return ResolvedVersion(manifest_of(row), row.digest, ensure_local_files(store, row))


def _resolve_version(tx: Any, asked: str, constraint: str) -> VersionRow:
    plugin = require_plugin(tx, asked)
    if not constraint:
        found = find_version(tx, plugin.name, plugin.current_version)
        if found is None:
            raise pinned_version_missing_error(plugin)
        return found
    wanted = Constraint.parse(constraint)
    versions = versions_of(tx, plugin.name)
    # A pin holds wherever it fits; a workflow that needs another version can still have it.
    versions.sort(key=lambda row: row.version != plugin.pinned_version)
    for row in versions:
        if wanted.allows(Version.parse(row.version)):
            return row
    raise NotFound(
        f"no installed version of {plugin.name} fits {constraint!r}",
        code="plugin.no_such_version",
        hint=f"installed: {', '.join(row.version for row in versions)}",
    )


def find_by_name_or_alias(tx: Any, asked: str) -> PluginRow | None:
    """The plugin of that name or alias; a name of its own comes before an alias."""
    found = find_plugin(tx, asked)
    if found is not None:
        return found
    alias = find_alias(tx, asked)
    target = alias[0] if alias else BUILT_IN_ALIASES.get(asked)
    return find_plugin(tx, target) if target else None


def require_plugin(tx: Any, asked: str) -> PluginRow:
    """The plugin of that name or alias.

    Raises:
        NotFound: nothing goes by it; says what comes close.
    """
    found = find_by_name_or_alias(tx, asked)
    if found is None:
        import difflib

        close = difflib.get_close_matches(asked, [plugin.name for plugin in all_plugins(tx)], n=1)
        raise NotFound(
            f"no plugin {asked!r} is installed",
            code="plugin.not_found",
            hint=f"did you mean {close[0]!r}?" if close else "see 'paddock plugin list'",
        )
    return found


def pinned_version_missing_error(plugin: PluginRow) -> PluginError:
    return PluginError(
        f"{plugin.name} is pinned to {plugin.current_version}, which was removed",
        code="plugin.pinned_version_removed",
        hint=f"use the latest: paddock plugin pin {plugin.name} --off, "
        f"or stop using it: paddock plugin disable {plugin.name}",
    )


def load_schema(schema: Schema | None, root: Path) -> Any:
    """A schema itself, read from the package where the manifest only names a file; nothing known is `{}`."""
    if isinstance(schema, SchemaFile):
        data = DirectoryFiles(root).read(schema.path)
        try:
            return json.loads(data) if data is not None else {}
        except (ValueError, RecursionError):
            return {}
    return schema if schema is not None else {}


def add_alias(store: PluginStore, alias: str, name: str) -> str:
    """Let `alias` stand for a plugin, and give the plugin's own name.

    Raises:
        NotFound: the plugin is not installed.
        Conflict: a plugin has that name itself.
        OperatorError: the alias is no name.
    """
    fault = plugin_name_problem(alias)
    if fault:
        raise OperatorError(f"the alias {fault[0]}", code="alias.name", hint=fault[1])

    def unit(tx: Transaction) -> str:
        if find_plugin(tx, alias):
            raise Conflict(f"{alias!r} is itself an installed plugin", code="alias.taken", hint="choose another alias")
        plugin = require_plugin(tx, name)
        save_alias(tx, alias, plugin.name)
        return plugin.name

    return store.database.write(unit)


def remove_alias(store: PluginStore, alias: str) -> None:
    """Forget an alias.

    Raises:
        NotFound: there is no such alias.
    """
    if not store.database.write(lambda tx: delete_alias(tx, alias)):
        raise NotFound(f"{alias!r} is not an alias", code="alias.not_found", hint="see 'paddock plugin info NAME'")
