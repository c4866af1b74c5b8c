"""A plugin's configuration on this machine, such as an API key: read and changed. Blocking.

Secret values are never returned, nor are values that look like a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from paddock.config.knob_values import config_field
from paddock.config.local_file import change_system_values, read_entries
from paddock.config.plugin_fields import PluginField, declared_fields
from paddock.config.variables import has_reference, is_reference, unescape
from paddock.core.errors import Problem
from paddock.core.secret import Secret
from paddock.manifest.dialects.credential_patterns import extract_keys
from paddock.manifest.model import Manifest
from paddock.plugins.install.config_secrets import (
    delete_sealed_value,
    find_unset_references,
    seal_value,
    secret_reference,
)
from paddock.plugins.store.lookup import resolve_name, resolve_plugin
from paddock.plugins.store.store import PluginStore

if TYPE_CHECKING:
    from paddock.secrets.wrapping_keys import WrappingKeys


class FieldState(Struct, frozen=True):
    """The state of one configuration field. `value` is its value, if people may see it."""

    field: PluginField
    set: bool
    hidden: bool = False  # it is set, but its value must not be shown
    value: Any = None
    reference: str = ""  # the variable or secret that it refers to, if any
    problems: tuple[Problem, ...] = ()  # unset variables and secrets that it refers to


class ProjectField(Struct, frozen=True):
    """A field decided per project and not per machine, with the knob that writes it, if any."""

    name: str
    description: str
    default: Any
    knob: str


class PluginConfiguration(Struct, frozen=True):
    """All configuration fields of a plugin: those of the machine and those of the project."""

    plugin: str
    version: str
    file: Path  # holds the values of this tenant
    schema: Mapping[str, Any]
    fields: tuple[FieldState, ...]
    project: tuple[ProjectField, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The required fields that are not set."""
        return tuple(one.field.name for one in self.fields if one.field.required and not one.set)


class ConfigChange(Struct, frozen=True):
    """The result of a configuration change."""

    plugin: str
    file: Path  # holds the values of this tenant
    fields: tuple[str, ...]
    forgotten: tuple[str, ...]
    sealed: tuple[str, ...]  # those of the fields whose values are stored as secrets now
    in_clear: tuple[str, ...]  # those that are secret, and stand in the file because they are no texts
    replaced: bool  # whether a previously sealed value was replaced or deleted


def system_schema(store: PluginStore, name: str) -> tuple[str, Mapping[str, Any]]:
    """Return a plugin's own name and the schema of its per-machine configuration.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, name).manifest
    return manifest.name, manifest.system_config_schema or {}


def read_configuration(store: PluginStore, name: str, environ: Mapping[str, str]) -> PluginConfiguration:
    """Read a plugin's declared fields and their state for this tenant.

    Args:
        store: The plugin store.
        name: Its name or an alias.
        environ: The variables that its configuration may refer to.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, name).manifest
    entry = read_entries(store.config_file).get(manifest.name)
    unset = find_unset_references(store, entry, environ) if entry else {}
    raw_values: Mapping[str, Any] = entry.raw_values if entry else {}
    schema = manifest.system_config_schema or {}
    states = tuple(_field_state(field, raw_values, unset.get(field.name, ())) for field in declared_fields(schema))
    return PluginConfiguration(
        manifest.name, manifest.version, store.config_file, schema, states, tuple(_project_fields(manifest))
    )


def write_configuration(
    store: PluginStore, name: str, values: Mapping[str, Any], forgotten: Sequence[str], keys: WrappingKeys | None
) -> ConfigChange:
    """Set fields of a plugin and remove others: in the file atomically, with a ledger entry.

    Values of secret fields are sealed first. A crash in between leaves a sealed value that no file refers to.

    Args:
        store: The plugin store.
        name: Its name or an alias.
        values: By field, in the format of `local.toml`; already validated.
        forgotten: The fields to remove.
        keys: Seal secrets; without them all values stand in the file.

    Raises:
        NotFound: it is not installed.
        HostError: `secret.key_missing`, when the key that secrets are sealed under is unavailable.
        PaddockError: the file cannot be written.
    """
    # Imported here: importing all events takes longer than reading the fields.
    from paddock.core.events.plugin_management import PluginConfigured

    # Looked up under the lock: the plugin may have been removed while a person was typing.
    with store.change_lock():
        plugin = resolve_name(store, name)
        secret_fields = {field.name for field in declared_fields(system_schema(store, plugin)[1]) if field.secret}
        stored_values, sealed, replaced = dict(values), list[str](), False
        for key, value in values.items():
            if keys is not None and key in secret_fields and isinstance(value, str) and not has_reference(value):
                sealed_secret = seal_value(store, keys, plugin, key, Secret(unescape(value)))
                stored_values[key] = secret_reference(sealed_secret.name)
                sealed.append(key)
                replaced = replaced or sealed_secret.version > 1
        removed = change_system_values(store.config_file, plugin, stored_values, forgotten)
        for key in (*forgotten, *(key for key in values if key not in sealed)):
            replaced = delete_sealed_value(store, plugin, key) or replaced
        event = PluginConfigured(name=plugin, fields=tuple(values), forgotten=tuple(removed))
        if values or removed:
            store.database.write(lambda tx: store.publish(tx, event))
    in_clear = tuple(key for key, value in values.items() if key in secret_fields and not isinstance(value, str))
    return ConfigChange(plugin, store.config_file, tuple(values), tuple(removed), tuple(sealed), in_clear, replaced)


def _field_state(field: PluginField, raw_values: Mapping[str, Any], problems: Sequence[Problem]) -> FieldState:
    if field.name not in raw_values:
        return FieldState(field, set=False)
    value = raw_values[field.name]
    if field.secret or not _is_displayable(value):
        reference = value[2:-1] if isinstance(value, str) and is_reference(value) and not field.secret else ""
        return FieldState(field, set=True, hidden=True, reference=reference, problems=tuple(problems))
    return FieldState(field, set=True, value=_unescape_value(value))


def _is_displayable(value: Any) -> bool:
    """Return whether people may see a value: it contains no reference and nothing that looks like a key."""
    if isinstance(value, str):
        return not has_reference(value) and extract_keys(value, "", lambda _, __: "") == value
    if isinstance(value, Mapping):
        return all(_is_displayable(item) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return all(_is_displayable(item) for item in cast("list[Any]", value))
    return True


def _unescape_value(value: Any) -> Any:
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, Mapping):
        return {key: _unescape_value(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_unescape_value(item) for item in cast("list[Any]", value)]
    return value


def _project_fields(manifest: Manifest) -> list[ProjectField]:
    declared = cast("Mapping[str, Any]", (manifest.config_schema or {}).get("properties", {}))
    writers = {config_field(knob): knob.name for knob in manifest.knobs}
    fields: list[ProjectField] = []
    for name, schema in declared.items():
        field_schema: Mapping[str, Any] = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
        description = str(field_schema.get("description") or field_schema.get("title") or "")
        fields.append(ProjectField(name, description, field_schema.get("default"), writers.get(name, "")))
    return fields
