"""Which plugins use a secret: who declares it, who may have it, what cannot run without it, and where it may go. Pure.

A tenant's secret is used by plugins that name it in their manifest, and by configuration that refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paddock.core.secret_name import is_configuration
from paddock.manifest.model import Manifest
from paddock.secrets.declared import Order, Scope, needed, where_to_look
from paddock.secrets.rows import Listed


@dataclass(frozen=True, slots=True)
class DeclaredBy:
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
class Use:
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
    whose: Order
    hosts: tuple[str, ...] = ()
    configured: bool = False

    @property
    def personal(self) -> bool:
        """Whether each person has one of their own."""
        return Scope.USER in self.whose

    @property
    def shared(self) -> bool:
        """Whether the whole tenant's one is used."""
        return Scope.SYSTEM in self.whose


@dataclass(frozen=True, slots=True)
class KeptSecret:
    """A secret of the whole tenant: what may be known of it where it is set, and who uses it.

    Attributes:
        listed: None where it is not set, and somebody uses it.
        configures: The plugin that it belongs to, where it is a part of its configuration.
    """

    name: str
    listed: Listed | None
    uses: tuple[Use, ...]
    configures: str = ""

    @property
    def missing(self) -> tuple[Use, ...]:
        """Those that cannot go on because it is not set."""
        return () if self.listed is not None else tuple(one for one in self.uses if one.may and _stops(one))

    @property
    def needed_by(self) -> tuple[Use, ...]:
        """Those that would stop working without it."""
        return tuple(one for one in self.uses if one.may and _stops(one))


def _stops(use: Use) -> bool:
    return use.configured or bool(use.operations and use.shared)


def uses_of(name: str, plugins: Iterable[DeclaredBy]) -> tuple[Use, ...]:
    """Who uses a secret."""
    found: list[Use] = []
    for one in plugins:
        manifest = one.manifest
        order = where_to_look(manifest, name)
        operations = tuple(auth.operation for auth in manifest.operation_auth if name in auth.secrets)
        if order is not None:
            whose = _whose(manifest, name, order)
            hosts = tuple(str(to) for to in manifest.secret_hosts.get(name, ()))
            found.append(Use(manifest.name, one.enabled and one.granted, operations, whose, hosts))
        if name in one.refers_to:
            found.append(Use(manifest.name, one.enabled, (), (Scope.SYSTEM,), configured=True))
    return tuple(sorted(found, key=lambda use: (not use.may, use.plugin)))


def _whose(manifest: Manifest, name: str, order: Order) -> Order:
    """Whose it may be for any of its operations."""
    orders = [needed(manifest, auth.operation).get(name, ()) for auth in manifest.operation_auth]
    allowed = {scope for one in orders for scope in one} or set(order)
    return tuple(scope for scope in Scope if scope in allowed)


def shared_secrets(listed: Iterable[Listed], plugins: Iterable[DeclaredBy]) -> list[KeptSecret]:
    """The secrets of a whole tenant: those that are set, and those that somebody of its plugins looks for."""
    declared = list(plugins)
    have: Mapping[str, Listed] = {one.name: one for one in listed if not one.owner}
    names: set[str] = set(have)
    for one in declared:
        names |= {name for name in one.manifest.secrets if not is_configuration(name)} | one.refers_to
    found = [KeptSecret(name, have.get(name), uses_of(name, declared), _configures(name)) for name in sorted(names)]
    return [one for one in found if one.listed is not None or any(use.shared for use in one.uses)]


def _configures(name: str) -> str:
    return name.split("/")[1] if is_configuration(name) and name.count("/") >= 2 else ""
