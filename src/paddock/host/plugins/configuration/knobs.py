"""A plugin's knobs: described with their current values, planned changes, and storing them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, cast

from msgspec import Struct

from paddock.config.knob_values import (
    KnobFit,
    KnobUpdate,
    RejectedKnobValueJson,
    apply_knob_update,
    config_field,
    config_fields,
    fit_knob_values,
)
from paddock.core.errors import Conflict
from paddock.core.events.plugin_runtime import PluginKnobWrite
from paddock.core.ids import new_id
from paddock.manifest.model import Knob, KnobType, Manifest
from paddock.manifest.rules.knobs import value_schema
from paddock.plugins.store.lookup import require_plugin, resolve_plugin
from paddock.plugins.store.rows import delete_knob_value, find_knob_values, find_version, save_knob_value
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction


class KnobJson(TypedDict):
    """A setting of a plugin that people change."""

    name: str
    type: KnobType
    label: str
    description: str
    binds_to: Annotated[str, "The field of the plugin's configuration that it writes, as `config.FIELD`."]
    options: Annotated[dict[str, Any], "The options of its type: `min`, `max`, `values`, `default`, …"]
    accepts: Annotated[dict[str, Any], "A JSON Schema of the accepted values."]
    set: Annotated[bool, "Whether a value was set; otherwise the default applies."]
    default: Annotated[Any, "The value that the plugin gets while none is set; null if there is no default."]
    value: Annotated[Any, "The value that the plugin gets now."]


class KnobsJson(TypedDict):
    """The knobs of a plugin."""

    name: str
    version: str
    knobs: list[KnobJson]
    left_out: Annotated[
        list[RejectedKnobValueJson],
        "Stored values that this version does not accept: they are kept, and the plugin gets the default.",
    ]


def describe_knobs(store: PluginStore, plugin: str) -> KnobsJson:
    """Describe the knobs of an installed plugin. They bind to its project configuration, which holds no secrets.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, plugin).manifest
    fit = stored_knob_values(store, manifest)
    project_values = config_fields(manifest, fit.values)
    return {
        "name": manifest.name,
        "version": manifest.version,
        "knobs": [_knob_to_json(knob, manifest, fit, project_values) for knob in manifest.knobs],
        "left_out": [rejected.to_value() for rejected in fit.left_out],
    }


def stored_knob_values(store: PluginStore, manifest: Manifest) -> KnobFit:
    """Return the values this tenant set for a plugin's knobs, as far as this version accepts them."""
    return fit_knob_values(manifest, store.database.read(lambda tx: find_knob_values(tx, store.tenant, manifest.name)))


def _knob_to_json(knob: Knob, manifest: Manifest, fit: KnobFit, project_values: Mapping[str, Any]) -> KnobJson:
    return {
        "name": knob.name,
        "type": knob.type,
        "label": knob.label,
        "description": knob.description,
        "binds_to": knob.binds_to,
        "options": dict(knob.options),
        "accepts": dict(value_schema(knob)),
        "set": knob.name in fit.values,
        "default": (default := _default_value(knob, manifest)),
        "value": project_values.get(config_field(knob), default),
    }


def _default_value(knob: Knob, manifest: Manifest) -> Any:
    """Return what the plugin gets while the knob is not set: the default of its field, if any."""
    fields = cast("dict[str, Any]", (manifest.config_schema or {}).get("properties", {}))
    return fields.get(config_field(knob), {}).get("default")


class KnobChange(Struct, frozen=True):
    """A validated change of knob values: those stored before, and those to store."""

    manifest: Manifest
    digest: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def changed_names(self) -> tuple[str, ...]:
        """The knobs whose stored value changes."""
        names = sorted({*self.before, *self.after})
        return tuple(name for name in names if _encoded_value(self.before, name) != _encoded_value(self.after, name))

    @property
    def fields(self) -> dict[str, Any]:
        """The resulting project configuration of the plugin, if nothing else changes."""
        return config_fields(self.manifest, fit_knob_values(self.manifest, self.after).values)


def plan_knob_change(store: PluginStore, plugin: str, update: KnobUpdate) -> KnobChange:
    """Validate an update of a plugin's knobs and compute the change.

    Raises:
        NotFound: it is not installed.
        Invalid: the knobs, or the plugin's own schema, reject the values; with every mistake.
    """
    handle = resolve_plugin(store, plugin)
    stored = store.database.read(lambda tx: find_knob_values(tx, store.tenant, handle.manifest.name))
    return KnobChange(handle.manifest, handle.digest, stored, apply_knob_update(handle.manifest, stored, update))


def store_knob_change(store: PluginStore, plan: KnobChange) -> None:
    """Store a planned change, with a ledger entry for each knob that changes.

    Raises:
        Conflict: the plugin or its knobs changed in the meantime; nothing is stored.
    """
    request = new_id("req", store.clock, store.random)

    def write(tx: Transaction) -> None:
        plugin = require_plugin(tx, plan.manifest.name)
        version = find_version(tx, plugin.name, plugin.current_version)
        same = version is not None and version.digest == plan.digest
        if not same or find_knob_values(tx, store.tenant, plugin.name) != plan.before:
            raise Conflict(
                f"{plugin.name} changed while its knobs were turned",
                code="plugin.changed_meanwhile",
                hint="look at its knobs, and turn them again",
            )
        for knob in plan.changed_names:
            if knob in plan.after:
                save_knob_value(tx, store.tenant, plugin.name, knob, plan.after[knob], store.now())
            else:
                delete_knob_value(tx, store.tenant, plugin.name, knob)
            store.publish(tx, PluginKnobWrite(name=plugin.name, knob=knob, agent_path=None, request_id=request))

    store.database.write(write)


def _encoded_value(values: Mapping[str, Any], name: str) -> str | None:
    """Encode a value for comparison: in Python `True == 1`."""
    return json.dumps(values[name]) if name in values else None
