"""Finds installed plugins by name, alias and version constraint.

Every plugin that is called is found through this module.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from paddock.core.action import Action
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

# The Kernel's specification uses both names.
BUILT_IN_ALIASES = {"Email.ApplyDraft": "Apply.EmailDraft", "Gmail.SendEmail": "Gmail.Send"}


class ResolvedVersion(Struct, frozen=True):
    """An installed version: its manifest and the directory of its files. Verify the files before using them."""

    manifest: Manifest
    digest: str
    root: Path


def manifest_of(row: VersionRow) -> Manifest:
    """Build the manifest of an installed version from its stored document."""
    return read_stored(ParsedDocument(f"{row.plugin} {row.version}", row.document))


def resolve_plugin(store: PluginStore, name: str, constraint: str = "") -> ResolvedVersion:
    """Return the highest installed version that the constraint allows; without one, the version in use.

    Raises:
        NotFound: no such plugin, or no version of it fits.
        OperatorError: the constraint is malformed.
    """
    row = store.database.read(lambda tx: _resolve_version(tx, name, constraint))
    return ResolvedVersion(manifest_of(row), row.digest, ensure_local_files(store, row))


def _resolve_version(tx: Any, name: str, constraint: str) -> VersionRow:
    plugin = require_plugin(tx, name)
    if not constraint:
        current = find_version(tx, plugin.name, plugin.current_version)
        if current is None:
            raise pinned_version_missing_error(plugin)
        return current
    parsed = Constraint.parse(constraint)
    versions = versions_of(tx, plugin.name)
    # The pinned version comes first if it fits; a workflow that needs another version can still have it.
    versions.sort(key=lambda row: row.version != plugin.pinned_version)
    for row in versions:
        if parsed.allows(Version.parse(row.version)):
            return row
    raise NotFound(
        f"no installed version of {plugin.name} fits {constraint!r}",
        code="plugin.no_such_version",
        hint=f"installed: {', '.join(row.version for row in versions)}",
    )


def find_by_name_or_alias(tx: Any, name: str) -> PluginRow | None:
    """Return the plugin of that name or alias; a name wins over an alias."""
    plugin = find_plugin(tx, name)
    if plugin is not None:
        return plugin
    alias = find_alias(tx, name)
    target = alias[0] if alias else BUILT_IN_ALIASES.get(name)
    return find_plugin(tx, target) if target else None


def require_plugin(tx: Any, name: str) -> PluginRow:
    """Return the plugin of that name or alias.

    Raises:
        NotFound: there is none; suggests a similar name.
    """
    row = find_by_name_or_alias(tx, name)
    if row is None:
        raise plugin_not_found_error(name, [plugin.name for plugin in all_plugins(tx)])
    return row


def plugin_not_found_error(name: str, installed: Sequence[str] = ()) -> NotFound:
    """Build the error for a name that no plugin has; suggests a similar one of the installed."""
    import difflib

    close_matches = difflib.get_close_matches(name, installed, n=1)
    return NotFound(
        f"no plugin {name!r} is installed",
        code="plugin.not_found",
        hint=f"did you mean {close_matches[0]!r}?" if close_matches else "",
        action=None if close_matches else Action.of("plugin.list"),
    )


def resolve_name(store: PluginStore, name: str) -> str:
    """Return a plugin's own name, given that or an alias. Raises as `require_plugin` does."""
    return store.database.read(lambda tx: require_plugin(tx, name)).name


def pinned_version_missing_error(plugin: PluginRow) -> PluginError:
    return PluginError(
        f"{plugin.name} is pinned to {plugin.current_version}, which was removed",
        code="plugin.pinned_version_removed",
        hint="unpin it to use the latest version, or disable it",
        action=Action.of("plugin.unpin", plugin=plugin.name),
    )


def load_schema(schema: Schema | None, root: Path) -> Any:
    """Return a schema, read from the package if the manifest only names a file; `{}` if there is none."""
    if isinstance(schema, SchemaFile):
        data = DirectoryFiles(root).read(schema.path)
        try:
            return json.loads(data) if data is not None else {}
        except (ValueError, RecursionError):
            return {}
    return schema if schema is not None else {}


def check_alias(alias: str) -> None:
    """Raise unless a plugin may have this alias.

    Raises:
        OperatorError: it is not a valid name.
    """
    problem = plugin_name_problem(alias)
    if problem:
        raise OperatorError(f"the alias {problem[0]}", code="alias.name", hint=problem[1])


def add_alias(store: PluginStore, alias: str, name: str) -> str:
    """Add an alias for a plugin, and return the plugin's own name.

    Raises:
        NotFound: the plugin is not installed.
        Conflict: a plugin has that name itself.
        OperatorError: the alias is not a valid name.
    """
    check_alias(alias)

    def unit(tx: Transaction) -> str:
        if find_plugin(tx, alias):
            raise Conflict(f"{alias!r} is itself an installed plugin", code="alias.taken", hint="choose another alias")
        plugin = require_plugin(tx, name)
        save_alias(tx, alias, plugin.name)
        return plugin.name

    return store.database.write(unit)


def remove_alias(store: PluginStore, alias: str) -> None:
    """Remove an alias.

    Raises:
        NotFound: there is no such alias.
    """
    if not store.database.write(lambda tx: delete_alias(tx, alias)):
        raise NotFound(f"{alias!r} is not an alias", code="alias.not_found", action=Action.of("plugin.show"))
