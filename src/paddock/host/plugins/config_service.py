"""Changes the per-machine configuration of plugins while the host runs, and pushes it to running plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.config.plugin_fields import prepare_for_file
from paddock.core.errors import Invalid
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.plugins.configuration.config import (
    ConfigChange,
    PluginConfiguration,
    read_configuration,
    system_schema,
    write_configuration,
)
from paddock.host.plugins.reconciler import Reconciler
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.secrets.wrapping_keys import WrappingKeys


class ConfigService:
    """Reads and changes plugins' configuration on this machine.

    Args:
        store: The plugin store.
        views: The plugin store, for reads.
        reconciler: Pushes the configuration to running plugins.
        keys: Seal secrets.
        environ: The variables that configurations may refer to.
    """

    def __init__(
        self,
        store: StoreThread,
        views: StoreThread,
        reconciler: Reconciler,
        keys: WrappingKeys,
        environ: Mapping[str, str],
    ) -> None:
        self._store = store
        self._views = views
        self._reconciler = reconciler
        self._keys = keys
        self._environ = environ

    async def describe(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> PluginConfiguration:
        """Return a plugin's configuration fields, without secrets.

        Raises:
            NotFound: it is not installed.
        """
        return await self._views.run(lambda store: read_configuration(store, name, self._environ), tenant)

    async def change(
        self, name: str, values: Mapping[str, Any], forgotten: Sequence[str], *, tenant: Tenant, by: PrincipalId
    ) -> str:
        """Set fields and remove others, atomically.

        A text is taken literally, or is a reference `${secret:NAME}` to a secret of the tenant. It never refers to an
        environment variable: the operator of one tenant must not read those of the host.

        Args:
            name: The plugin's name or an alias.
            values: By field.
            forgotten: The fields to remove.
            tenant: The plugin's tenant.
            by: The principal to record.

        Returns:
            Why the running plugin keeps its old configuration; empty if it accepted the new one or does not run.

        Raises:
            NotFound: it is not installed.
            Invalid: some values violate the schema; carries every mistake, and repeats no secret.
            PaddockError: see `write_configuration`.
        """

        def write(store: PluginStore) -> ConfigChange:
            plugin, schema = system_schema(store, name)
            prepared, problems = prepare_for_file(schema, values)
            if problems:
                raise Invalid(f"{plugin} does not take this", problems, code="config.plugin_invalid")
            change = write_configuration(store, plugin, prepared, forgotten, self._keys)
            if change.replaced:
                store.database.truncate_log()
            return change

        change = await self._store.run(write, tenant, by=by)
        await self._reconciler.reconcile()
        key = self._reconciler.current_keys.get((tenant, change.plugin))
        if key is not None:
            await self._reconciler.restart_if_failed(key)  # the missing configuration may be why it failed
        return await self._reconciler.wait_unused_config_reason(key) if key is not None else ""
