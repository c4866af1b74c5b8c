"""Shared secrets of a tenant and the plugins that use them, from the database and the manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

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


class PluginSecretAccess(Struct, frozen=True):
    """The access of one plugin to secrets.

    Attributes:
        enabled: Whether the tenant has it enabled.
        granted: Whether it was granted access to secrets at all.
        refers_to: The secrets that its configuration refers to.
    """

    manifest: Manifest
    enabled: bool = False
    granted: bool = False
    refers_to: frozenset[str] = frozenset()


class PluginSecretUsage(Struct, frozen=True):
    """How one plugin uses one secret.

    Attributes:
        may: Whether it may read the secret now: it is enabled, and was granted access.
        operations: The operations that require the secret.
        scopes: The scopes in which it is looked up, in order.
        hosts: The hosts for which it is injected into requests, hidden from the plugin; empty if it reads the value.
        configured: Whether the plugin's configuration refers to it.
    """

    plugin: str
    may: bool
    operations: tuple[str, ...]
    scopes: LookupOrder
    hosts: tuple[str, ...] = ()
    configured: bool = False

    @property
    def personal(self) -> bool:
        """Whether each person has one of their own."""
        return SecretScope.USER in self.scopes

    @property
    def shared(self) -> bool:
        """Whether the tenant's shared secret is used."""
        return SecretScope.SYSTEM in self.scopes


class SharedSecret(Struct, frozen=True):
    """A shared secret of a tenant: its metadata if it is set, and its usages.

    Attributes:
        listed: None if it is not set but used.
        configures: The plugin that it belongs to, if it is part of its configuration.
    """

    name: str
    listed: SecretInfo | None
    uses: tuple[PluginSecretUsage, ...]
    configures: str = ""

    @property
    def missing(self) -> tuple[PluginSecretUsage, ...]:
        """The usages that fail because it is not set."""
        return (
            () if self.listed is not None else tuple(usage for usage in self.uses if usage.may and _is_required(usage))
        )

    @property
    def needed_by(self) -> tuple[PluginSecretUsage, ...]:
        """The usages that would fail without it."""
        return tuple(usage for usage in self.uses if usage.may and _is_required(usage))


def _is_required(usage: PluginSecretUsage) -> bool:
    return usage.configured or bool(usage.operations and usage.shared)


def find_usages(name: str, plugins: Iterable[PluginSecretAccess]) -> tuple[PluginSecretUsage, ...]:
    """Find the plugins that use a secret, and how."""
    usages: list[PluginSecretUsage] = []
    for plugin in plugins:
        manifest = plugin.manifest
        order = lookup_order(manifest, name)
        operations = tuple(auth.operation for auth in manifest.operation_auth if name in auth.secrets)
        if order is not None:
            scopes = _allowed_scopes(manifest, name, order)
            hosts = tuple(str(host) for host in manifest.secret_hosts.get(name, ()))
            usages.append(
                PluginSecretUsage(manifest.name, plugin.enabled and plugin.granted, operations, scopes, hosts)
            )
        if name in plugin.refers_to:
            usages.append(PluginSecretUsage(manifest.name, plugin.enabled, (), (SecretScope.SYSTEM,), configured=True))
    return tuple(sorted(usages, key=lambda usage: (not usage.may, usage.plugin)))


def _allowed_scopes(manifest: Manifest, name: str, order: LookupOrder) -> LookupOrder:
    """Return the scopes that any of its operations allows."""
    orders = [required_secrets(manifest, auth.operation).get(name, ()) for auth in manifest.operation_auth]
    allowed = {scope for scopes in orders for scope in scopes} or set(order)
    return tuple(scope for scope in SecretScope if scope in allowed)


def collect_shared_secrets(listed: Iterable[SecretInfo], plugins: Iterable[PluginSecretAccess]) -> list[SharedSecret]:
    """Collect the shared secrets of a tenant: those that are set, and those that its plugins look up."""
    plugin_list = list(plugins)
    set_secrets: Mapping[str, SecretInfo] = {secret.name: secret for secret in listed if not secret.owner}
    names: set[str] = set(set_secrets)
    for plugin in plugin_list:
        names |= {name for name in plugin.manifest.secrets if not is_config_secret(name)} | plugin.refers_to
    shared_secrets = [
        SharedSecret(name, set_secrets.get(name), find_usages(name, plugin_list), _configured_plugin(name))
        for name in sorted(names)
    ]
    return [
        secret for secret in shared_secrets if secret.listed is not None or any(usage.shared for usage in secret.uses)
    ]


def _configured_plugin(name: str) -> str:
    return name.split("/")[1] if is_config_secret(name) and name.count("/") >= 2 else ""


_SECRETS_CAPABILITY: Final = "host:secrets"


class SecretUsageService:
    """Reads the usage of secrets.

    Args:
        views: The plugin store, for reads.
    """

    def __init__(self, views: StoreThread) -> None:
        self._views = views
        self._manifests: dict[str, Manifest] = {}  # by digest: parsing one is the slowest part here

    async def list_shared(self, tenant: Tenant) -> list[SharedSecret]:
        """List the shared secrets of a tenant, set or looked up, by name."""

        def collect(store: PluginStore) -> list[SharedSecret]:
            def query(tx: Transaction) -> tuple[dict[str, VersionRow], dict[str, Grant], list[SecretInfo]]:
                return current_versions(tx), all_grants(tx, tenant), list_secrets(tx, tenant, "")

            versions, grants, listed = store.database.read(query)
            entries = _read_entries(store)
            self._manifests = {row.digest: self._load_manifest(row) for row in versions.values()}
            plugins = [
                _plugin_access(self._manifests[row.digest], grants.get(name), entries.get(name))
                for name, row in versions.items()
                if tenant == DEFAULT_TENANT or name in grants  # other tenants see only plugins granted to them
            ]
            return collect_shared_secrets(listed, plugins)

        return await self._views.run(collect, tenant)

    def _load_manifest(self, row: VersionRow) -> Manifest:
        return self._manifests.get(row.digest) or manifest_of(row)


def _read_entries(store: PluginStore) -> Mapping[str, PluginEntry]:
    try:
        return read_entries(store.config_file)
    except PaddockError:
        return {}  # an invalid file is reported as a repair


def _plugin_access(manifest: Manifest, grant: Grant | None, entry: PluginEntry | None) -> PluginSecretAccess:
    return PluginSecretAccess(
        manifest,
        grant is not None and grant.enabled,
        grant is not None and _SECRETS_CAPABILITY in grant.capabilities,
        frozenset(referenced_secrets(dict(entry.raw_values))) if entry is not None else frozenset(),
    )
