"""What a plugin needs to know on this machine, such as a key for a service: looked at, and changed. Blocks.

A value that is secret is never told to anybody here, nor is one that looks like a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

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
from paddock.plugins.store.lookup import require_plugin, resolve_plugin
from paddock.plugins.store.store import PluginStore

if TYPE_CHECKING:
    from paddock.secrets.wrapping_keys import WrappingKeys


@dataclass(frozen=True, slots=True)
class FieldState:
    """One field as it stands. `value` is what it is set to, where people may see that."""

    field: PluginField
    set: bool
    hidden: bool = False  # set to what nobody is shown
    value: Any = None
    reference: str = ""  # the variable or secret that it is, where it is one
    problems: tuple[Problem, ...] = ()  # what it refers to and is not set


@dataclass(frozen=True, slots=True)
class ProjectField:
    """A field that is no machine's to decide, and the knob that writes it, if one does."""

    name: str
    description: str
    default: Any
    knob: str


@dataclass(frozen=True, slots=True)
class PluginConfiguration:
    """All of a plugin's fields, by who decides them."""

    plugin: str
    version: str
    schema: Mapping[str, Any]
    fields: tuple[FieldState, ...]
    project: tuple[ProjectField, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What it cannot do without, and was not given."""
        return tuple(one.field.name for one in self.fields if one.field.required and not one.set)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What became of a change."""

    plugin: str
    fields: tuple[str, ...]
    forgotten: tuple[str, ...]
    sealed: tuple[str, ...]  # those of the fields whose values are among the secrets now
    replaced: bool  # whether a value that was sealed before is gone


def system_schema(store: PluginStore, name: str) -> tuple[str, Mapping[str, Any]]:
    """A plugin's own name, and the schema of its configuration on a machine.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, name).manifest
    return manifest.name, manifest.system_config_schema or {}


def read_configuration(store: PluginStore, name: str, environ: Mapping[str, str]) -> PluginConfiguration:
    """What a plugin declares, and how much of it is set for this tenant.

    Args:
        store: Where it is installed.
        name: Its name or an alias.
        environ: The variables that its configuration may refer to.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, name).manifest
    entry = read_entries(store.config_file).get(manifest.name)
    unset = find_unset_references(store, entry, environ) if entry else {}
    written: Mapping[str, Any] = entry.raw_values if entry else {}
    schema = manifest.system_config_schema or {}
    states = tuple(_field_state(field, written, unset.get(field.name, ())) for field in declared_fields(schema))
    return PluginConfiguration(manifest.name, manifest.version, schema, states, tuple(_project_fields(manifest)))


def write_configuration(
    store: PluginStore, name: str, values: Mapping[str, Any], forgotten: Sequence[str], keys: WrappingKeys | None
) -> ConfigChange:
    """Set fields of a plugin and forget others: in the file in one step, with an entry in the record.

    Texts of secret fields are sealed first. Whoever is killed in between has sealed what no file names.

    Args:
        store: Where it is installed.
        name: Its name or an alias.
        values: By field, as `local.toml` has them; they were found to fit.
        forgotten: Fields.
        keys: Seal secrets; without them everything stands in the file.

    Raises:
        NotFound: it is not installed.
        HostError: `secret.key_missing`, when the key that secrets are sealed under is not here.
        PaddockError: the file cannot be written.
    """
    # Imported here: defining all events takes longer than looking at the fields.
    from paddock.core.events.plugin_management import PluginConfigured

    # Asked under the lock: the plugin may have been removed while somebody was typing.
    with store.change_lock():
        plugin = store.database.read(lambda tx: require_plugin(tx, name)).name
        secret = {field.name for field in declared_fields(system_schema(store, plugin)[1]) if field.secret}
        kept, sealed, replaced = dict(values), list[str](), False
        for key, value in values.items():
            if keys is not None and key in secret and isinstance(value, str) and not has_reference(value):
                found = seal_value(store, keys, plugin, key, Secret(unescape(value)))
                kept[key] = secret_reference(found.name)
                sealed.append(key)
                replaced = replaced or found.version > 1
        gone = change_system_values(store.config_file, plugin, kept, forgotten)
        for key in (*forgotten, *(key for key in values if key not in sealed)):
            replaced = delete_sealed_value(store, plugin, key) or replaced
        told = PluginConfigured(name=plugin, fields=tuple(values), forgotten=tuple(gone))
        if values or gone:
            store.database.write(lambda tx: store.publish(tx, told))
    return ConfigChange(plugin, tuple(values), tuple(gone), tuple(sealed), replaced)


def _field_state(field: PluginField, written: Mapping[str, Any], problems: Sequence[Problem]) -> FieldState:
    if field.name not in written:
        return FieldState(field, set=False)
    value = written[field.name]
    if field.secret or not _is_displayable(value):
        named = value[2:-1] if isinstance(value, str) and is_reference(value) and not field.secret else ""
        return FieldState(field, set=True, hidden=True, reference=named, problems=tuple(problems))
    return FieldState(field, set=True, value=_unescape_value(value))


def _is_displayable(value: Any) -> bool:
    """Whether people may see it: it takes nothing from elsewhere, and nothing of it looks like a key."""
    if isinstance(value, str):
        return not has_reference(value) and extract_keys(value, "", lambda _, __: "") == value
    if isinstance(value, Mapping):
        return all(_is_displayable(one) for one in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return all(_is_displayable(one) for one in cast("list[Any]", value))
    return True


def _unescape_value(value: Any) -> Any:
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, Mapping):
        return {key: _unescape_value(one) for key, one in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_unescape_value(one) for one in cast("list[Any]", value)]
    return value


def _project_fields(manifest: Manifest) -> list[ProjectField]:
    declared = cast("Mapping[str, Any]", (manifest.config_schema or {}).get("properties", {}))
    writers = {config_field(knob): knob.name for knob in manifest.knobs}
    found: list[ProjectField] = []
    for name, schema in declared.items():
        about: Mapping[str, Any] = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
        words = str(about.get("description") or about.get("title") or "")
        found.append(ProjectField(name, words, about.get("default"), writers.get(name, "")))
    return found
