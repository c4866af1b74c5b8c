"""The secrets of a tenant with who uses them, as the rows and manifests are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.config.local import PluginEntry, read_entries
from paddock.config.variables import secrets_in
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.host.secret_uses import DeclaredBy, KeptSecret, shared_secrets
from paddock.manifest.model import Manifest
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of
from paddock.plugins.rows import Grant, VersionRow, all_grants, current_versions
from paddock.plugins.store_thread import StoreThread
from paddock.secrets.rows import Listed, secrets
from paddock.store.transaction import Transaction

_MAY: Final = "host:secrets"


class SecretOverview:
    """Looks at the secrets of tenants.

    Args:
        views: Where rows are read, which holds up nobody.
    """

    def __init__(self, views: StoreThread) -> None:
        self._views = views
        self._manifests: dict[str, Manifest] = {}  # by digest: reading one takes longer than all else here

    async def shared(self, tenant: Tenant) -> list[KeptSecret]:
        """Those of the whole tenant, set or looked for, by name."""

        def work(store: PluginStore) -> list[KeptSecret]:
            def unit(tx: Transaction) -> tuple[dict[str, VersionRow], dict[str, Grant], list[Listed]]:
                return current_versions(tx), all_grants(tx, tenant), secrets(tx, tenant, "")

            versions, grants, listed = store.database.read(unit)
            entries = _entries(store)
            self._manifests = {row.digest: self._manifest(row) for row in versions.values()}
            declared = [
                _declared(self._manifests[row.digest], grants.get(name), entries.get(name))
                for name, row in versions.items()
                if tenant == DEFAULT_TENANT or name in grants  # what a tenant has nothing to do with is not its affair
            ]
            return shared_secrets(listed, declared)

        return await self._views.run(work, tenant)

    def _manifest(self, row: VersionRow) -> Manifest:
        return self._manifests.get(row.digest) or manifest_of(row)


def _entries(store: PluginStore) -> Mapping[str, PluginEntry]:
    try:
        return read_entries(store.values_file)
    except PaddockError:
        return {}  # a file with mistakes is a repair of its own


def _declared(manifest: Manifest, grant: Grant | None, entry: PluginEntry | None) -> DeclaredBy:
    return DeclaredBy(
        manifest,
        grant is not None and grant.enabled,
        grant is not None and _MAY in grant.capabilities,
        frozenset(secrets_in(dict(entry.written))) if entry is not None else frozenset(),
    )
