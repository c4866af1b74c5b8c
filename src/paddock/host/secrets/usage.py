"""The secrets of a tenant with who uses them, as the rows and manifests are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from paddock.config.local_file import PluginEntry, read_entries
from paddock.config.variables import referenced_secrets
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.secret import is_config_secret
from paddock.manifest.model import Manifest
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import Grant, VersionRow, all_grants, current_versions
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.secrets.requirements import LookupOrder, SecretScope, lookup_order, required_secrets
from paddock.secrets.rows import SecretInfo, list_secrets
from paddock.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class PluginSecretAccess:
    """One plugin, as far as secrets go.

    Attributes:
        enabled: Whether the tenant has it enabled.
        granted: Whether it was granted to have secrets at all.
        refers_to: The secrets that its configuration refers to.
    """

    manifest: Manifest
    enabled: bool = False
    granted: bool = False
    refers_to: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PluginSecretUsage:
    """How one plugin uses one secret.

    Attributes:
        may: Whether it may have the secret now: it is enabled, and was granted that.
        operations: What of it cannot run without the secret.
        whose: Whose secret it looks for, in this order.
        hosts: Where the host writes it into requests, and the plugin never has it; empty where it is given it.
        configured: Whether it is the plugin's configuration that refers to it.
    """

    plugin: str
    may: bool
    operations: tuple[str, ...]
    whose: LookupOrder
    hosts: tuple[str, ...] = ()
    configured: bool = False

    @property
    def personal(self) -> bool:
        """Whether each person has one of their own."""
        return SecretScope.USER in self.whose

    @property
    def shared(self) -> bool:
        """Whether the whole tenant's one is used."""
        return SecretScope.SYSTEM in self.whose


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """A secret of the whole tenant: what may be known of it where it is set, and who uses it.

    Attributes:
        listed: None where it is not set, and somebody uses it.
        configures: The plugin that it belongs to, where it is a part of its configuration.
    """

    name: str
    listed: SecretInfo | None
    uses: tuple[PluginSecretUsage, ...]
    configures: str = ""

    @property
    def missing(self) -> tuple[PluginSecretUsage, ...]:
        """Those that cannot go on because it is not set."""
        return () if self.listed is not None else tuple(one for one in self.uses if one.may and _is_required(one))

    @property
    def needed_by(self) -> tuple[PluginSecretUsage, ...]:
        """Those that would stop working without it."""
        return tuple(one for one in self.uses if one.may and _is_required(one))


def _is_required(use: PluginSecretUsage) -> bool:
    return use.configured or bool(use.operations and use.shared)


def find_usages(name: str, plugins: Iterable[PluginSecretAccess]) -> tuple[PluginSecretUsage, ...]:
    """Who uses a secret."""
    found: list[PluginSecretUsage] = []
    for one in plugins:
        manifest = one.manifest
        order = lookup_order(manifest, name)
        operations = tuple(auth.operation for auth in manifest.operation_auth if name in auth.secrets)
        if order is not None:
            whose = _allowed_scopes(manifest, name, order)
            hosts = tuple(str(to) for to in manifest.secret_hosts.get(name, ()))
            found.append(PluginSecretUsage(manifest.name, one.enabled and one.granted, operations, whose, hosts))
        if name in one.refers_to:
            found.append(PluginSecretUsage(manifest.name, one.enabled, (), (SecretScope.SYSTEM,), configured=True))
    return tuple(sorted(found, key=lambda use: (not use.may, use.plugin)))


def _allowed_scopes(manifest: Manifest, name: str, order: LookupOrder) -> LookupOrder:
    """Whose it may be for any of its operations."""
    orders = [required_secrets(manifest, auth.operation).get(name, ()) for auth in manifest.operation_auth]
    allowed = {scope for one in orders for scope in one} or set(order)
    return tuple(scope for scope in SecretScope if scope in allowed)


def collect_shared_secrets(listed: Iterable[SecretInfo], plugins: Iterable[PluginSecretAccess]) -> list[SharedSecret]:
    """The secrets of a whole tenant: those that are set, and those that somebody of its plugins looks for."""
    declared = list(plugins)
    have: Mapping[str, SecretInfo] = {one.name: one for one in listed if not one.owner}
    names: set[str] = set(have)
    for one in declared:
        names |= {name for name in one.manifest.secrets if not is_config_secret(name)} | one.refers_to
    found = [
        SharedSecret(name, have.get(name), find_usages(name, declared), _configured_plugin(name))
        for name in sorted(names)
    ]
    return [one for one in found if one.listed is not None or any(use.shared for use in one.uses)]


def _configured_plugin(name: str) -> str:
    return name.split("/")[1] if is_config_secret(name) and name.count("/") >= 2 else ""


_SECRETS_CAPABILITY: Final = "host:secrets"


class SecretUsageService:
    """Looks at the secrets of tenants.

    Args:
        views: Where rows are read, which holds up nobody.
    """

    def __init__(self, views: StoreThread) -> None:
        self._views = views
        self._manifests: dict[str, Manifest] = {}  # by digest: reading one takes longer than all else here

    async def list_shared(self, tenant: Tenant) -> list[SharedSecret]:
        """Those of the whole tenant, set or looked for, by name."""

        def work(store: PluginStore) -> list[SharedSecret]:
            def unit(tx: Transaction) -> tuple[dict[str, VersionRow], dict[str, Grant], list[SecretInfo]]:
                return current_versions(tx), all_grants(tx, tenant), list_secrets(tx, tenant, "")

            versions, grants, listed = store.database.read(unit)
            entries = _read_entries(store)
            self._manifests = {row.digest: self._load_manifest(row) for row in versions.values()}
            declared = [
                _plugin_access(self._manifests[row.digest], grants.get(name), entries.get(name))
                for name, row in versions.items()
                if tenant == DEFAULT_TENANT or name in grants  # what a tenant has nothing to do with is not its affair
            ]
            return collect_shared_secrets(listed, declared)

        return await self._views.run(work, tenant)

    def _load_manifest(self, row: VersionRow) -> Manifest:
        return self._manifests.get(row.digest) or manifest_of(row)


def _read_entries(store: PluginStore) -> Mapping[str, PluginEntry]:
    try:
        return read_entries(store.config_file)
    except PaddockError:
        return {}  # a file with mistakes is a repair of its own


def _plugin_access(manifest: Manifest, grant: Grant | None, entry: PluginEntry | None) -> PluginSecretAccess:
    return PluginSecretAccess(
        manifest,
        grant is not None and grant.enabled,
        grant is not None and _SECRETS_CAPABILITY in grant.capabilities,
        frozenset(referenced_secrets(dict(entry.raw_values))) if entry is not None else frozenset(),
    )
