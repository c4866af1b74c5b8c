"""What plugins want of one person: accounts of theirs at providers, and secrets of their own.

No provider can be connected to yet. What is declared is told all the same, so that nobody wonders why a tool refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from paddock.core.call import CallContext
from paddock.core.errors import NotFound
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.calling.caller_view import PermittedPlugins
from paddock.host.secrets.secret_service import SecretService
from paddock.manifest.model import Manifest
from paddock.secrets.requirements import SecretScope, lookup_order, required_secrets
from paddock.secrets.rows import SecretInfo

RequiredSecretState: TypeAlias = Literal["set", "shared", "missing"]
CatalogueLookup: TypeAlias = Callable[[Tenant], Catalogue]


@dataclass(frozen=True, slots=True)
class RequiredAccount:
    """An account at a provider.

    Attributes:
        mode: `user` acts as the person, `service_account` and `domain_delegate` as the organisation.
        optional: Whether the plugin works without it.
        operations: What of it needs the account; empty where all of it does.
    """

    provider: str
    mode: str
    scopes: tuple[str, ...]
    optional: bool
    operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequiredSecret:
    """A secret that somebody may have of their own.

    Attributes:
        operations: What cannot run without one.
        hosts: Where the host writes it into requests, and the plugin never has it; empty where it is given it.
        mine: What may be known of theirs; None where they have none.
        shared: Whether the tenant's one is used where they have none.
        state: `set` where they have one, `shared` where the tenant's stands in, else `missing`.
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


@dataclass(frozen=True, slots=True)
class PluginRequirements:
    """What one plugin wants of a person."""

    plugin: str
    title: str
    accounts: tuple[RequiredAccount, ...]
    secrets: tuple[RequiredSecret, ...]

    @property
    def lacking(self) -> bool:
        """Whether something of it cannot run for them as it is."""
        secrets = any(one.state == "missing" and one.operations for one in self.secrets)
        return secrets or any(not one.optional for one in self.accounts)


def required_accounts(manifest: Manifest) -> tuple[RequiredAccount, ...]:
    """The accounts that a manifest declares: for the whole plugin, and for single operations. Pure."""
    found = [RequiredAccount(one.provider, one.mode, one.scopes, one.optional) for one in manifest.identities]
    known = {(one.provider, one.mode) for one in found}
    by_account: dict[tuple[str, str], list[Any]] = {}
    for auth in manifest.operation_auth:
        if auth.provider is not None and (auth.provider, auth.mode or "user") not in known:
            by_account.setdefault((auth.provider, auth.mode or "user"), []).append(auth)
    for (provider, mode), auths in by_account.items():
        scopes = tuple(dict.fromkeys(scope for auth in auths for scope in auth.scopes))
        found.append(RequiredAccount(provider, mode, scopes, False, tuple(auth.operation for auth in auths)))
    return tuple(found)


def required_user_secrets(
    manifest: Manifest, mine: Mapping[str, SecretInfo], of_tenant: frozenset[str]
) -> tuple[RequiredSecret, ...]:
    """The secrets of a manifest that may be a person's own. Pure.

    Args:
        manifest: What the plugin declares.
        mine: The person's secrets by name.
        of_tenant: The names of those of the whole tenant.
    """
    found: list[RequiredSecret] = []
    for name in manifest.secrets:
        orders = {
            auth.operation: required_secrets(manifest, auth.operation).get(name) for auth in manifest.operation_auth
        }
        named = {operation: order for operation, order in orders.items() if order is not None}
        whose = [scope for order in named.values() for scope in order] or lookup_order(manifest, name) or ()
        if SecretScope.USER not in whose:
            continue
        hosts = tuple(str(to) for to in manifest.secret_hosts.get(name, ()))
        stands_in = name in of_tenant and all(SecretScope.SYSTEM in order for order in named.values())
        found.append(RequiredSecret(name, tuple(named), hosts, mine.get(name), stands_in))
    return tuple(found)


class UserRequirements:
    """What plugins want of the people of a tenant.

    Args:
        catalogue: The plugins of a tenant.
        offers: Which of them somebody may use.
        secrets: Keeps theirs.
    """

    def __init__(self, catalogue: CatalogueLookup, offers: PermittedPlugins, secrets: SecretService) -> None:
        self._catalogue = catalogue
        self._offers = offers
        self._secrets = secrets

    async def list_for(self, context: CallContext) -> list[PluginRequirements]:
        """Of each plugin that somebody may use and that wants something of them, by name."""
        manifests = await self._permitted_manifests(context)
        mine = {one.name: one for one in await self._secrets.list_secrets(context.tenant, context.principal.person)}
        of_tenant = frozenset(one.name for one in await self._secrets.list_secrets(context.tenant, ""))
        found = [
            PluginRequirements(
                one.name, one.display_name, required_accounts(one), required_user_secrets(one, mine, of_tenant)
            )
            for one in manifests
        ]
        return [one for one in found if one.accounts or one.secrets]

    async def plugins_requiring_secret(self, context: CallContext, name: str) -> list[str]:
        """The plugins that want a secret of somebody: nobody keeps here what nobody asks for.

        Raises:
            NotFound: none does.
        """
        wanted = [
            one.plugin for one in await self.list_for(context) if any(secret.name == name for secret in one.secrets)
        ]
        if not wanted:
            raise NotFound(
                f"no plugin that you use asks for {printable(name, 128)}",
                code="secret.not_wanted",
                hint="look at your accounts for what is asked for",
            )
        return wanted

    async def _permitted_manifests(self, context: CallContext) -> Iterable[Manifest]:
        offered = {one["name"] for one in await self._offers.plugins(context)}
        entries = self._catalogue(context.tenant).entries()
        return sorted((one.manifest for one in entries if one.manifest.name in offered), key=lambda one: one.name)
