"""The catalogues of all tenants, which are replaced when plugins come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paddock.core.ids import Tenant
from paddock.gate.catalogue.catalogue import Catalogue


class Catalogues:
    """The current catalogue of each tenant.

    Args:
        by_tenant: The catalogues to begin with.
    """

    def __init__(self, by_tenant: Mapping[Tenant, Catalogue] | None = None) -> None:
        self._by_tenant: Mapping[Tenant, Catalogue] = by_tenant or {}
        self._listeners: list[Callable[[], None]] = []

    def of(self, tenant: Tenant) -> Catalogue:
        """Return a tenant's catalogue; an empty one if nothing is enabled."""
        found = self._by_tenant.get(tenant)
        return Catalogue(tenant=tenant) if found is None else found

    def replace(self, by_tenant: Mapping[Tenant, Catalogue]) -> None:
        """Replace all catalogues, and notify the listeners if one of them is another."""
        previous, self._by_tenant = self._by_tenant, by_tenant
        changed = any(previous.get(tenant) is not catalogue for tenant, catalogue in by_tenant.items())
        if changed or previous.keys() != by_tenant.keys():
            for listener in self._listeners:
                listener()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call a function each time that catalogues were replaced."""
        self._listeners.append(listener)
