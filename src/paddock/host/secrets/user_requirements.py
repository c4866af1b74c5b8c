"""Requirements of plugins for one person: accounts at providers, and secrets of their own.

Connecting accounts is not supported yet. Requirements are listed all the same, so that people see why a tool refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from paddock.core.call import CallContext
from paddock.core.errors import NotFound
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.calls.caller_view import PermittedPlugins
from paddock.host.secrets.secret_service import SecretService
from paddock.manifest.model import Manifest
from paddock.secrets.requirements import SecretScope, lookup_order, required_secrets
from paddock.secrets.rows import SecretInfo

RequiredSecretState: TypeAlias = Literal["set", "shared", "missing"]
CatalogueLookup: TypeAlias = Callable[[Tenant], Catalogue]


class RequiredAccount(Struct, frozen=True):
    """An account at a provider.

    Attributes:
        mode: `user` acts as the person, `service_account` and `domain_delegate` as the organisation.
        optional: Whether the plugin works without it.
        operations: The operations that need the account; empty if all do.
    """

    provider: str
    mode: str
    scopes: tuple[str, ...]
    optional: bool
    operations: tuple[str, ...] = ()


class RequiredSecret(Struct, frozen=True):
    """A secret that a person may set for themselves.

    Attributes:
        operations: The operations that require one.
        hosts: The hosts for which it is injected into requests, hidden from the plugin; empty if it reads the value.
        mine: The metadata of the person's own; None if they have none.
        shared: Whether the tenant's secret is used if they have none.
        state: `set` if they have one, `shared` if the tenant's is used instead, else `missing`.
    """

    name: str
    operations: tuple[str, ...]
    hosts: tuple[str, ...]
    mine: SecretInfo | None
    shared: bool

    @property
    def state(self) -> RequiredSecretState:
        if self.mine is not None:
            return "set"
        return "shared" if self.shared else "missing"


class PluginRequirements(Struct, frozen=True):
    """The accounts and secrets that one plugin requires of a person."""

    plugin: str
    title: str
    accounts: tuple[RequiredAccount, ...]
    secrets: tuple[RequiredSecret, ...]

    @property
    def lacking(self) -> bool:
        """Whether some of its operations cannot run for the person yet."""
        secrets = any(secret.state == "missing" and secret.operations for secret in self.secrets)
        return secrets or any(not account.optional for account in self.accounts)


def required_accounts(manifest: Manifest) -> tuple[RequiredAccount, ...]:
    """Return the accounts that a manifest declares: for the whole plugin, and for single operations. Pure."""
    accounts = [
        RequiredAccount(identity.provider, identity.mode, identity.scopes, identity.optional)
        for identity in manifest.identities
    ]
    declared = {(account.provider, account.mode) for account in accounts}
    by_account: dict[tuple[str, str], list[Any]] = {}
    for auth in manifest.operation_auth:
        if auth.provider is not None and (auth.provider, auth.mode or "user") not in declared:
            by_account.setdefault((auth.provider, auth.mode or "user"), []).append(auth)
    for (provider, mode), auths in by_account.items():
        scopes = tuple(dict.fromkeys(scope for auth in auths for scope in auth.scopes))
        accounts.append(RequiredAccount(provider, mode, scopes, False, tuple(auth.operation for auth in auths)))
    return tuple(accounts)


def required_user_secrets(
    manifest: Manifest, own: Mapping[str, SecretInfo], shared: frozenset[str]
) -> tuple[RequiredSecret, ...]:
    """Return the secrets of a manifest that a person may set for themselves. Pure.

    Args:
        manifest: The plugin's manifest.
        own: The person's secrets by name.
        shared: The names of the tenant's shared secrets.
    """
    secrets: list[RequiredSecret] = []
    for name in manifest.secrets:
        orders = {
            auth.operation: required_secrets(manifest, auth.operation).get(name) for auth in manifest.operation_auth
        }
        required = {operation: order for operation, order in orders.items() if order is not None}
        scopes = [scope for order in required.values() for scope in order] or lookup_order(manifest, name) or ()
        if SecretScope.USER not in scopes:
            continue
        hosts = tuple(str(host) for host in manifest.secret_hosts.get(name, ()))
        has_fallback = name in shared and all(SecretScope.SYSTEM in order for order in required.values())
        secrets.append(RequiredSecret(name, tuple(required), hosts, own.get(name), has_fallback))
    return tuple(secrets)


class UserRequirements:
    """Lists what plugins require of the people of a tenant.

    Args:
        catalogue: Returns a tenant's catalogue.
        permitted: Lists the plugins that a person may use.
        secrets: Stores people's secrets.
    """

    def __init__(self, catalogue: CatalogueLookup, permitted: PermittedPlugins, secrets: SecretService) -> None:
        self._catalogue = catalogue
        self._permitted = permitted
        self._secrets = secrets

    async def list_for(self, context: CallContext) -> list[PluginRequirements]:
        """List the requirements of each plugin that the caller may use and that has any, by name."""
        names = {plugin["name"] for plugin in await self._permitted.plugins(context)}
        return await self.list_of(names, context)

    async def list_of(self, plugins: Collection[str], context: CallContext) -> list[PluginRequirements]:
        """List the requirements of those of these plugins that are enabled and have any, by name."""
        manifests = [entry.manifest for entry in self._catalogue(context.tenant).entries()]
        own = {
            secret.name: secret for secret in await self._secrets.list_secrets(context.tenant, context.principal.person)
        }
        shared = frozenset(secret.name for secret in await self._secrets.list_secrets(context.tenant, ""))
        requirements = [
            PluginRequirements(
                manifest.name,
                manifest.display_name,
                required_accounts(manifest),
                required_user_secrets(manifest, own, shared),
            )
            for manifest in sorted(manifests, key=lambda manifest: manifest.name)
            if manifest.name in plugins
        ]
        return [plugin for plugin in requirements if plugin.accounts or plugin.secrets]

    async def plugins_requiring_secret(self, context: CallContext, name: str) -> list[str]:
        """List the plugins that require a secret of the caller: secrets that no plugin requires cannot be set.

        Raises:
            NotFound: no plugin requires it.
        """
        plugins = [
            plugin.plugin
            for plugin in await self.list_for(context)
            if any(secret.name == name for secret in plugin.secrets)
        ]
        if not plugins:
            raise NotFound(
                f"no plugin that you use asks for {printable(name, 128)}",
                code="secret.not_wanted",
                hint="look at your accounts for what is asked for",
            )
        return plugins
