"""Configuring plugins while the host runs: what each needs on this machine, and a running one is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.config.plugin_fields import prepare_for_file
from paddock.core.errors import Invalid
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.plugins.config import (
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
    """Changes what plugins are told on this machine.

    Args:
        store: Where they are installed.
        views: The same, for looking.
        reconciler: Tells running plugins.
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
        """A plugin's fields, without secrets.

        Raises:
            NotFound: it is not installed.
        """
        return await self._views.run(lambda store: read_configuration(store, name, self._environ), tenant)

    async def change(
        self, name: str, values: Mapping[str, Any], forgotten: Sequence[str], *, tenant: Tenant, by: PrincipalId
    ) -> str:
        """Set fields and forget others, all of them or none.

        A text means itself, or the secret of the tenant that it names as `${secret:NAME}`. It never means a variable of
        the machine: whoever operates one tenant must not read those of the host.

        Args:
            name: The plugin's name or an alias.
            values: By field.
            forgotten: Fields.
            tenant: Whose plugin it is.
            by: Who wants it, for the record.

        Returns:
            Why the running plugin goes on with what it had; empty where it took this, or does not run.

        Raises:
            NotFound: it is not installed.
            Invalid: some values do not fit; carries every mistake, and repeats no secret.
            PaddockError: see `plugin_values.change`.
        """

        def work(store: PluginStore) -> ConfigChange:
            plugin, schema = system_schema(store, name)
            fitting, problems = prepare_for_file(schema, values)
            if problems:
                raise Invalid(f"{plugin} does not take this", problems, code="config.plugin_invalid")
            written = write_configuration(store, plugin, fitting, forgotten, self._keys)
            if written.replaced:
                store.database.truncate_log()
            return written

        written = await self._store.run(work, tenant, by=by)
        await self._reconciler.reconcile()
        key = self._reconciler.current_keys.get((tenant, written.plugin))
        if key is not None:
            await self._reconciler.restart_if_failed(key)  # it may have waited for just this
        return await self._reconciler.wait_unused_config_reason(key) if key is not None else ""
