"""Every installed version of a plugin beside the one in use: who stands behind it, and what it may do more or less."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.manifest.asked import asked_of
from paddock.manifest.capability import Capability, uncovered
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of, require_plugin
from paddock.plugins.rows import PluginRow, VersionRow, tenants_with, versions_of
from paddock.plugins.sources import Source, SourceKind
from paddock.plugins.trust import Standing, standing_of, trusted_keys
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class KnownVersion:
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
    standing: Standing
    in_use: bool
    latest: bool
    kept_until: str
    more: tuple[Capability, ...]
    less: tuple[Capability, ...]


@dataclass(frozen=True, slots=True)
class History:
    """All of them, highest first.

    Attributes:
        source: Where the next version is looked for.
        tenants: How many have it enabled.
    """

    plugin: PluginRow
    title: str
    versions: tuple[KnownVersion, ...]
    source: Source | None
    tenants: int

    @property
    def can_be_fetched_from(self) -> str:
        """Where a next version can be asked for without being named, in words; empty where nowhere."""
        source = self.source
        if source is None or source.kind in (SourceKind.UPLOAD, SourceKind.CONFIGURATION):
            return ""
        return source.describe()


def history_of(store: PluginStore, name: str) -> History:
    """The versions of a plugin.

    Raises:
        NotFound: it is not installed.
    """

    def unit(tx: Transaction) -> History:
        plugin = require_plugin(tx, name)
        rows = versions_of(tx, plugin.name)
        current = next((row for row in rows if row.version == plugin.current_version), None)
        latest = next((row for row in rows if row.version == plugin.default_version), None)
        used = asked_of(manifest_of(current)) if current else ()
        keys = {key.key_id: key.label for key in trusted_keys(tx)}
        known = tuple(
            _known(row, plugin, used, standing_of(row, keys, intact=True), store.retention_days) for row in rows
        )
        return History(
            plugin,
            manifest_of(current).display_name if current else plugin.title or plugin.name,
            known,
            latest.source.source if latest else None,
            tenants_with(tx, plugin.name),
        )

    return store.database.read(unit)


def _known(
    row: VersionRow, plugin: PluginRow, used: tuple[Capability, ...], standing: Standing, days: int
) -> KnownVersion:
    asked = asked_of(manifest_of(row))
    held = row.version in (plugin.default_version, plugin.pinned_version) or row.superseded_at is None
    until = "" if held else (datetime.fromisoformat(str(row.superseded_at)) + timedelta(days=days)).isoformat()
    return KnownVersion(
        version=row.version,
        digest=row.digest,
        installed_at=row.installed_at,
        source=row.source.describe(),
        standing=standing,
        in_use=row.version == plugin.current_version,
        latest=row.version == plugin.default_version,
        kept_until=until,
        more=tuple(uncovered(used, asked)),
        less=tuple(uncovered(asked, used)),
    )
