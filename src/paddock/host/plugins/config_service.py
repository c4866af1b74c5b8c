"""Changes the per-machine configuration of plugins while the host runs, and pushes it to running plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from paddock.config.plugin_fields import Schema, declared_fields, parse_field_value, prepare_for_file, require_field
from paddock.core.action import Action
from paddock.core.errors import Invalid, NotFound
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


class AppliedConfig(NamedTuple):
    """A configuration change that was written and pushed to the running plugin."""

    change: ConfigChange
    log: Path | None  # the store's log, if it still holds a replaced secret
    missing: tuple[str, ...] = ()  # required fields that were removed: the plugin does not run until they are set
    unused_config: str = ""  # why the running plugin keeps its old configuration; empty if it does not


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

    async def describe(
        self, name: str, tenant: Tenant = DEFAULT_TENANT, *, field: str | None = None
    ) -> PluginConfiguration:
        """Return a plugin's configuration fields, or one of them, without secrets.

        Raises:
            NotFound: it is not installed, or declares no such field.
        """

        def read(store: PluginStore) -> PluginConfiguration:
            configuration = read_configuration(store, name, self._environ)
            if field is None:
                return configuration
            knobs = (one.knob for one in configuration.project if one.knob and field in (one.name, one.knob))
            if (knob := next(knobs, None)) is not None:
                raise NotFound(
                    f"{field} is a knob of {configuration.plugin}, and not a configuration field",
                    code="config.no_such_field",
                    action=Action.of("plugin.knob", plugin=configuration.plugin, knob=knob, tenant=tenant),
                )
            declared = require_field(configuration.schema, configuration.plugin, field)
            return replace(
                configuration, fields=tuple(state for state in configuration.fields if state.field == declared)
            )

        return await self._views.run(read, tenant)

    async def change(
        self, name: str, values: Mapping[str, Any], forgotten: Sequence[str], *, tenant: Tenant, by: PrincipalId
    ) -> AppliedConfig:
        """Set fields and remove others, atomically.

        A text is taken literally, or is a reference `${secret:NAME}` to a secret of the tenant. It never refers to an
        environment variable: the operator of one tenant must not read those of the host.

        Args:
            name: The plugin's name or an alias.
            values: By field.
            forgotten: The fields to remove.
            tenant: The plugin's tenant.
            by: The principal to record.

        Raises:
            NotFound: it is not installed.
            Invalid: some values violate the schema; carries every mistake, and repeats no secret.
            PaddockError: see `write_configuration`.
        """

        def prepare(plugin: str, schema: Schema) -> Mapping[str, Any]:
            prepared, problems = prepare_for_file(schema, values)
            if problems:
                raise Invalid(f"{plugin} does not take this", problems, code="config.plugin_invalid")
            return prepared

        return await self._apply(name, prepare, forgotten, tenant, by)

    async def change_from_text(
        self,
        name: str,
        texts: Mapping[str, str],
        forgotten: Sequence[str],
        *,
        variables: bool,
        tenant: Tenant,
        by: PrincipalId,
    ) -> AppliedConfig:
        """Set fields as a person typed them, and remove others, atomically.

        Args:
            name: The plugin's name or an alias.
            texts: By field; each is read as the type that the plugin declares.
            forgotten: The fields to remove.
            variables: Whether a text may refer to an environment variable of the host, as `${NAME}`.
            tenant: The plugin's tenant.
            by: The principal to record.

        Raises:
            NotFound: it is not installed, or declares no such field.
            Invalid: a text does not fit what it declares; repeats a number at most.
            PaddockError: see `write_configuration`.
        """

        def prepare(plugin: str, schema: Schema) -> Mapping[str, Any]:
            for key in forgotten:
                require_field(schema, plugin, key)
            return {
                key: parse_field_value(schema, require_field(schema, plugin, key), text, variables=variables)
                for key, text in texts.items()
            }

        return await self._apply(name, prepare, forgotten, tenant, by)

    async def _apply(
        self,
        name: str,
        prepare: Callable[[str, Schema], Mapping[str, Any]],
        forgotten: Sequence[str],
        tenant: Tenant,
        by: PrincipalId,
    ) -> AppliedConfig:
        def write(store: PluginStore) -> AppliedConfig:
            plugin, schema = system_schema(store, name)
            change = write_configuration(store, plugin, prepare(plugin, schema), forgotten, self._keys)
            required = {field.name for field in declared_fields(schema) if field.required}
            missing = tuple(key for key in change.forgotten if key in required)
            return AppliedConfig(change, store.database.truncate_log() if change.replaced else None, missing)

        applied = await self._store.run(write, tenant, by=by)
        await self._reconciler.reconcile()
        key = self._reconciler.current_keys.get((tenant, applied.change.plugin))
        if key is None:
            return applied
        if applied.missing:
            await self._reconciler.restart_if_running(key)  # its process still has the removed value
            return applied
        await self._reconciler.restart_if_failed(key)  # the missing configuration may be why it failed
        return applied._replace(unused_config=await self._reconciler.wait_unused_config_reason(key))
