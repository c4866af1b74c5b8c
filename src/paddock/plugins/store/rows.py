"""The plugin store's rows: functions of a transaction, and the frozen values they return."""

from __future__ import annotations

import dataclasses
import json
from functools import cached_property
from typing import Any

from msgspec import Struct

from paddock.core.ids import PluginName, Tenant
from paddock.core.semver import Version
from paddock.manifest.capability import Capability, parse_capability
from paddock.plugins.package.source import SourceRecord
from paddock.plugins.package.tree import PackageTree
from paddock.store.database import Row, Transaction

UPGRADE_FIRST_HINT = "if the plugin itself has to change, upgrade it to a new version first; then enable it"
"""For a plugin that was given up: its installed copy runs, so a fix in the source folder alone changes nothing."""


class PluginRow(Struct, frozen=True):
    """An installed plugin, regardless of its versions."""

    name: PluginName
    title: str
    default_version: str
    pinned_version: str | None
    local: bool
    installed_at: str

    @property
    def current_version(self) -> str:
        """The version in use by default: the pinned one, else the latest consented."""
        return self.pinned_version or self.default_version


@dataclasses.dataclass(frozen=True)
class VersionRow:
    """One installed version. The file list is fetched separately: most queries do not need it."""

    plugin: PluginName
    version: str
    digest: str
    blob: str
    dialect: str
    manifest_text: str
    source_text: str
    signature_text: str | None
    installed_at: str
    superseded_at: str | None

    @cached_property
    def document(self) -> dict[str, Any]:
        """The manifest as a paddock.yaml document."""
        return json.loads(self.manifest_text)

    @property
    def source(self) -> SourceRecord:
        return SourceRecord.from_value(json.loads(self.source_text))

    @property
    def signature(self) -> dict[str, Any] | None:
        """The signer, as verified at install."""
        return json.loads(self.signature_text) if self.signature_text else None


class Grant(Struct, frozen=True):
    """The capabilities that a tenant granted a plugin, and whether it is enabled there."""

    tenant: Tenant
    plugin: PluginName
    enabled: bool
    capabilities: tuple[str, ...]
    digest: str  # the tree digest that was consented to
    given_up: str = ""  # why a daemon disabled it; empty if none did, or a person decided after that


def granted_capabilities(grant: Grant | None) -> list[Capability]:
    """Return the capabilities of a grant; none where nothing was granted."""
    return [parse_capability(text) for text in grant.capabilities] if grant else []


_VERSION_COLUMNS = (
    "plugin, version, digest, blob, dialect, manifest AS manifest_text, source AS source_text, "
    "signature AS signature_text, installed_at, superseded_at"
)


def _plugin_from_row(row: Row) -> PluginRow:
    row["local"] = bool(row["local"])
    return PluginRow(**row)


def find_plugin(tx: Transaction, name: str) -> PluginRow | None:
    row = tx.one(
        "SELECT name, title, default_version, pinned_version, local, installed_at FROM plugins WHERE name = ?", (name,)
    )
    return _plugin_from_row(row) if row else None


def all_plugins(tx: Transaction) -> list[PluginRow]:
    rows = tx.all("SELECT name, title, default_version, pinned_version, local, installed_at FROM plugins ORDER BY name")
    return [_plugin_from_row(row) for row in rows]


def versions_of(tx: Transaction, name: str) -> list[VersionRow]:
    """Return every installed version, highest first; among equals the one installed last."""
    rows = tx.all(f"SELECT {_VERSION_COLUMNS} FROM plugin_versions WHERE plugin = ? ORDER BY installed_at", (name,))  # noqa: S608
    versions = [VersionRow(**row) for row in rows]
    # Sorted by both keys: equal versions, which differ only in build metadata, keep the newer first.
    return sorted(versions, key=lambda row: (Version.parse(row.version), row.installed_at), reverse=True)


def find_version(tx: Transaction, name: str, version: str) -> VersionRow | None:
    row = tx.one(f"SELECT {_VERSION_COLUMNS} FROM plugin_versions WHERE plugin = ? AND version = ?", (name, version))  # noqa: S608
    return VersionRow(**row) if row else None


def current_versions(tx: Transaction) -> dict[str, VersionRow]:
    """Return the version in use of every plugin."""
    columns = ", ".join(f"v.{column.strip()}" for column in _VERSION_COLUMNS.split(","))
    rows = tx.all(
        f"SELECT {columns} FROM plugin_versions v JOIN plugins p ON p.name = v.plugin "  # noqa: S608
        "AND v.version = COALESCE(p.pinned_version, p.default_version)"
    )
    return {row["plugin"]: VersionRow(**row) for row in rows}


def version_names(tx: Transaction) -> dict[str, tuple[str, ...]]:
    """Return the installed versions of every plugin, in the order of `versions_of`."""
    keys_by_plugin: dict[str, list[tuple[Version, str, str]]] = {}
    for row in tx.all("SELECT plugin, version, installed_at FROM plugin_versions"):
        key = (Version.parse(row["version"]), row["installed_at"], row["version"])
        keys_by_plugin.setdefault(row["plugin"], []).append(key)
    return {plugin: tuple(name for *_, name in sorted(keys, reverse=True)) for plugin, keys in keys_by_plugin.items()}


def tree_of(tx: Transaction, name: str, version: str) -> PackageTree:
    """Return the file list of an installed version."""
    row = tx.one("SELECT tree FROM plugin_versions WHERE plugin = ? AND version = ?", (name, version))
    return PackageTree.from_value(json.loads(row["tree"]) if row else [])


def insert_plugin(tx: Transaction, row: PluginRow) -> None:
    tx.execute(
        "INSERT INTO plugins (name, title, default_version, pinned_version, local, installed_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (row.name, row.title, row.default_version, row.pinned_version, int(row.local), row.installed_at),
    )


def insert_version(tx: Transaction, row: VersionRow, tree: PackageTree) -> None:
    tx.execute(
        "INSERT INTO plugin_versions (plugin, version, digest, blob, dialect, manifest, source, signature, "
        "tree, installed_at, superseded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(row.plugin, row.version, row.digest, row.blob, row.dialect, row.manifest_text, row.source_text),
            *(row.signature_text, json.dumps(tree.to_value()), row.installed_at, row.superseded_at),
        ),
    )


def set_default_version(tx: Transaction, name: str, version: str, now: str) -> None:
    """Make a version the default; the retention period of the one it replaces begins."""
    tx.execute(
        "UPDATE plugin_versions SET superseded_at = ? WHERE plugin = ? AND superseded_at IS NULL AND version <> ?",
        (now, name, version),
    )
    tx.execute("UPDATE plugin_versions SET superseded_at = NULL WHERE plugin = ? AND version = ?", (name, version))
    row = find_version(tx, name, version)
    title = row.document.get("title", "") if row else ""
    tx.execute("UPDATE plugins SET default_version = ?, title = ? WHERE name = ?", (version, title, name))


def set_pin(tx: Transaction, name: str, version: str | None) -> None:
    tx.execute("UPDATE plugins SET pinned_version = ? WHERE name = ?", (version, name))


def restart_retention(tx: Transaction, name: str, version: str, now: str) -> None:
    """Restart a superseded version's retention period: a pin kept it in use until now."""
    tx.execute(
        "UPDATE plugin_versions SET superseded_at = ? WHERE plugin = ? AND version = ? AND superseded_at IS NOT NULL",
        (now, name, version),
    )


def set_signature(tx: Transaction, name: str, version: str, signature: str, blob: str) -> None:
    tx.execute(
        "UPDATE plugin_versions SET signature = ?, blob = ? WHERE plugin = ? AND version = ?",
        (signature, blob, name, version),
    )


def update_provenance(tx: Transaction, row: VersionRow) -> None:
    """Update source and signature of a version that is installed again. Its files are the same."""
    tx.execute(
        "UPDATE plugin_versions SET blob = ?, source = ?, signature = ? WHERE plugin = ? AND version = ?",
        (row.blob, row.source_text, row.signature_text, row.plugin, row.version),
    )


def blobs_in_use(tx: Transaction) -> set[str]:
    """Return the blobs of every installed version."""
    return {row["blob"] for row in tx.all("SELECT DISTINCT blob FROM plugin_versions")}


def delete_version(tx: Transaction, name: str, version: str) -> None:
    tx.execute("DELETE FROM plugin_versions WHERE plugin = ? AND version = ?", (name, version))


def delete_plugin(tx: Transaction, name: str) -> None:
    tx.execute("DELETE FROM aliases WHERE plugin = ?", (name,))
    tx.execute("DELETE FROM plugins WHERE name = ?", (name,))


def blob_in_use(tx: Transaction, blob: str) -> bool:
    return tx.one("SELECT 1 AS used FROM plugin_versions WHERE blob = ?", (blob,)) is not None


def find_grant(tx: Transaction, tenant: Tenant, name: str) -> Grant | None:
    row = tx.one(
        "SELECT tenant, plugin, enabled, capabilities, digest, given_up FROM grants WHERE tenant = ? AND plugin = ?",
        (tenant, name),
    )
    return _grant_from_row(row) if row else None


def grant_changed_at(tx: Transaction, tenant: Tenant, name: str) -> str | None:
    """Return when a grant was last stored; None if there is none."""
    row = tx.one("SELECT changed_at FROM grants WHERE tenant = ? AND plugin = ?", (tenant, name))
    return row["changed_at"] if row else None


def all_grants(tx: Transaction, tenant: Tenant) -> dict[str, Grant]:
    rows = tx.all(
        "SELECT tenant, plugin, enabled, capabilities, digest, given_up FROM grants WHERE tenant = ?", (tenant,)
    )
    return {row["plugin"]: _grant_from_row(row) for row in rows}


def given_up_times(tx: Transaction, tenant: Tenant) -> dict[str, str]:
    """Return when the daemon disabled each plugin of a tenant that it disabled."""
    rows = tx.all(
        "SELECT plugin, changed_at FROM grants WHERE tenant = ? AND enabled = 0 AND given_up <> ''", (tenant,)
    )
    return {row["plugin"]: row["changed_at"] for row in rows}


def grants_by_tenant(tx: Transaction) -> dict[Tenant, dict[str, Grant]]:
    """Return every tenant's grants, by tenant and plugin."""
    rows = tx.all("SELECT tenant, plugin, enabled, capabilities, digest, given_up FROM grants ORDER BY tenant, plugin")
    grants: dict[Tenant, dict[str, Grant]] = {}
    for row in rows:
        grants.setdefault(row["tenant"], {})[row["plugin"]] = _grant_from_row(row)
    return grants


def _grant_from_row(row: Row) -> Grant:
    capabilities = tuple(json.loads(row["capabilities"]))
    return Grant(row["tenant"], row["plugin"], bool(row["enabled"]), capabilities, row["digest"], row["given_up"])


def count_quarantined(tx: Transaction, tenant: Tenant) -> dict[str, int]:
    """Count the definitions of each plugin that wait for a person; plugins without any are left out."""
    rows = tx.all(
        "SELECT plugin, COUNT(*) AS waiting FROM plugin_definitions WHERE tenant = ? AND standing = ? GROUP BY plugin",
        (tenant, "quarantined"),
    )
    return {row["plugin"]: row["waiting"] for row in rows}


def save_grant(tx: Transaction, grant: Grant, now: str) -> None:
    tx.execute(
        "INSERT INTO grants (tenant, plugin, enabled, capabilities, digest, given_up, changed_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, plugin) DO UPDATE SET enabled = excluded.enabled, capabilities = excluded.capabilities, "
        "digest = excluded.digest, given_up = excluded.given_up, changed_at = excluded.changed_at",
        (
            *(grant.tenant, grant.plugin, int(grant.enabled), json.dumps(list(grant.capabilities)), grant.digest),
            *(grant.given_up, now),
        ),
    )


def count_tenants_enabled(tx: Transaction, plugin: str) -> int:
    """Count the tenants that have a plugin enabled."""
    row = tx.one("SELECT count(*) AS many FROM grants WHERE plugin = ? AND enabled = 1", (plugin,))
    return int(row["many"]) if row else 0


def find_alias(tx: Transaction, alias: str) -> tuple[str, str] | None:
    row = tx.one("SELECT plugin, callable FROM aliases WHERE alias = ?", (alias,))
    return (row["plugin"], row["callable"]) if row else None


def all_aliases(tx: Transaction) -> dict[str, str]:
    return {row["alias"]: row["plugin"] for row in tx.all("SELECT alias, plugin FROM aliases ORDER BY alias")}


def save_alias(tx: Transaction, alias: str, plugin: str) -> None:
    tx.execute(
        "INSERT INTO aliases (alias, plugin, callable) VALUES (?, ?, '') "
        "ON CONFLICT (alias) DO UPDATE SET plugin = excluded.plugin",
        (alias, plugin),
    )


def delete_alias(tx: Transaction, alias: str) -> bool:
    return tx.execute("DELETE FROM aliases WHERE alias = ?", (alias,)) > 0


def find_knob_values(tx: Transaction, tenant: Tenant, plugin: str) -> dict[str, Any]:
    """Return a tenant's knob values of a plugin, by knob; knobs at their default are left out."""
    rows = tx.all("SELECT knob, value FROM plugin_knobs WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return {row["knob"]: json.loads(row["value"]) for row in sorted(rows, key=lambda row: str(row["knob"]))}


def save_knob_value(tx: Transaction, tenant: Tenant, plugin: str, knob: str, value: Any, now: str) -> None:
    """Save a knob's value, replacing the previous one."""
    tx.execute(
        "INSERT INTO plugin_knobs (tenant, plugin, knob, value, changed_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (tenant, plugin, knob) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at",
        (tenant, plugin, knob, json.dumps(value), now),
    )


def delete_knob_value(tx: Transaction, tenant: Tenant, plugin: str, knob: str) -> None:
    """Reset a knob to its default."""
    tx.execute("DELETE FROM plugin_knobs WHERE tenant = ? AND plugin = ? AND knob = ?", (tenant, plugin, knob))
