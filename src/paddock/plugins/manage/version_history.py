"""Every installed version of a plugin beside the one in use: who stands behind it, and what it may do more or less."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.store.lookup import manifest_of, require_plugin
from paddock.plugins.store.rows import PluginRow, VersionRow, count_tenants_enabled, versions_of
from paddock.plugins.store.store import PluginStore
from paddock.plugins.trust.trusted_keys import SignerInfo, describe_signer, list_trusted_keys
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """One installed version.

    Attributes:
        version, digest, installed_at, source: What it is, since when it is here, and where it came from.
        standing: Who stands behind it. Its files are not looked at for this.
        in_use: Whether calls go to it.
        latest: Whether it is the last one that somebody consented to; a pin may keep another in use.
        kept_until: When it is let go, where that is known.
        more, less: What it asks for that the one in use does not, and the other way round.
    """

    version: str
    digest: str
    installed_at: str
    source: str
    standing: SignerInfo
    in_use: bool
    latest: bool
    kept_until: str
    more: tuple[Capability, ...]
    less: tuple[Capability, ...]


@dataclass(frozen=True, slots=True)
class VersionHistory:
    """All of them, highest first.

    Attributes:
        source: Where the next version is looked for.
        tenants: How many have it enabled.
    """

    plugin: PluginRow
    title: str
    versions: tuple[VersionSummary, ...]
    source: PackageSource | None
    tenants: int

    @property
    def update_source(self) -> str:
        """Where a next version can be asked for without being named, in words; empty where nowhere."""
        source = self.source
        if source is None or source.kind in (SourceKind.UPLOAD, SourceKind.CONFIGURATION):
            return ""
        return source.describe()


def load_version_history(store: PluginStore, name: str) -> VersionHistory:
    """The versions of a plugin.

    Raises:
        NotFound: it is not installed.
    """

    def unit(tx: Transaction) -> VersionHistory:
        plugin = require_plugin(tx, name)
        rows = versions_of(tx, plugin.name)
        current = next((row for row in rows if row.version == plugin.current_version), None)
        latest = next((row for row in rows if row.version == plugin.default_version), None)
        used = requested_capabilities(manifest_of(current)) if current else ()
        keys = {key.key_id: key.label for key in list_trusted_keys(tx)}
        known = tuple(
            _summarize_version(row, plugin, used, describe_signer(row, keys, intact=True), store.retention_days)
            for row in rows
        )
        return VersionHistory(
            plugin,
            manifest_of(current).display_name if current else plugin.title or plugin.name,
            known,
            latest.source.source if latest else None,
            count_tenants_enabled(tx, plugin.name),
        )

    return store.database.read(unit)


def _summarize_version(
    row: VersionRow, plugin: PluginRow, used: tuple[Capability, ...], standing: SignerInfo, days: int
) -> VersionSummary:
    asked = requested_capabilities(manifest_of(row))
    held = row.version in (plugin.default_version, plugin.pinned_version) or row.superseded_at is None
    until = "" if held else (datetime.fromisoformat(str(row.superseded_at)) + timedelta(days=days)).isoformat()
    return VersionSummary(
        version=row.version,
        digest=row.digest,
        installed_at=row.installed_at,
        source=row.source.describe(),
        standing=standing,
        in_use=row.version == plugin.current_version,
        latest=row.version == plugin.default_version,
        kept_until=until,
        more=tuple(missing_capabilities(used, asked)),
        less=tuple(missing_capabilities(asked, used)),
    )
