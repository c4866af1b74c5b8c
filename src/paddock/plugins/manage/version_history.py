"""All installed versions of a plugin compared with the one in use: their signers and their capabilities."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.store.lookup import manifest_of, require_plugin
from paddock.plugins.store.rows import PluginRow, VersionRow, count_tenants_enabled, versions_of
from paddock.plugins.store.store import PluginStore
from paddock.plugins.trust.trusted_keys import SignerInfo, describe_signer, list_trusted_keys
from paddock.store.database import Transaction


class VersionSummary(Struct, frozen=True):
    """One installed version.

    Attributes:
        version, digest, installed_at, source: Its identity, when it was installed, and where it came from.
        standing: The signer. The files are not verified for this.
        in_use: Whether calls go to it.
        latest: Whether it is the latest consented version; a pin may keep another in use.
        kept_until: When it expires, if that is known.
        more, less: The capabilities that it requests beyond the one in use, and the reverse.
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


class VersionHistory(Struct, frozen=True):
    """All installed versions, highest first.

    Attributes:
        source: Where the next version is looked for.
        tenants: How many tenants have it enabled.
    """

    plugin: PluginRow
    title: str
    versions: tuple[VersionSummary, ...]
    source: PackageSource | None
    tenants: int

    @property
    def update_source(self) -> str:
        """Describe where a new version can be fetched without naming a source; empty if nowhere."""
        source = self.source
        if source is None or source.kind in (SourceKind.UPLOAD, SourceKind.CONFIGURATION):
            return ""
        return source.describe()


def load_version_history(store: PluginStore, name: str) -> VersionHistory:
    """Load the versions of a plugin.

    Raises:
        NotFound: it is not installed.
    """

    def unit(tx: Transaction) -> VersionHistory:
        plugin = require_plugin(tx, name)
        rows = versions_of(tx, plugin.name)
        current = next((row for row in rows if row.version == plugin.current_version), None)
        latest = next((row for row in rows if row.version == plugin.default_version), None)
        current_capabilities = requested_capabilities(manifest_of(current)) if current else ()
        keys = {key.key_id: key.label for key in list_trusted_keys(tx)}
        summaries = tuple(
            _summarize_version(
                row, plugin, current_capabilities, describe_signer(row, keys, intact=True), store.retention_days
            )
            for row in rows
        )
        return VersionHistory(
            plugin,
            manifest_of(current).display_name if current else plugin.title or plugin.name,
            summaries,
            latest.source.source if latest else None,
            count_tenants_enabled(tx, plugin.name),
        )

    return store.database.read(unit)


def _summarize_version(
    row: VersionRow, plugin: PluginRow, current_capabilities: tuple[Capability, ...], signer: SignerInfo, days: int
) -> VersionSummary:
    capabilities = requested_capabilities(manifest_of(row))
    retained = row.version in (plugin.default_version, plugin.pinned_version) or row.superseded_at is None
    kept_until = "" if retained else (datetime.fromisoformat(str(row.superseded_at)) + timedelta(days=days)).isoformat()
    return VersionSummary(
        version=row.version,
        digest=row.digest,
        installed_at=row.installed_at,
        source=row.source.describe(),
        standing=signer,
        in_use=row.version == plugin.current_version,
        latest=row.version == plugin.default_version,
        kept_until=kept_until,
        more=tuple(missing_capabilities(current_capabilities, capabilities)),
        less=tuple(missing_capabilities(capabilities, current_capabilities)),
    )
