"""What a person may tune of a plugin: its knobs, with what the plugin is given for each, and turning them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.config.knob_values import (
    KnobFit,
    KnobUpdate,
    apply_knob_update,
    config_field,
    config_fields,
    fit_knob_values,
)
from paddock.core.errors import Conflict
from paddock.core.events.plugin_runtime import PluginKnobWrite
from paddock.core.ids import new_id
from paddock.manifest.model import Knob, Manifest
from paddock.manifest.rules.knobs import value_schema
from paddock.plugins.store.lookup import require_plugin, resolve_plugin
from paddock.plugins.store.rows import delete_knob_value, find_knob_values, find_version, save_knob_value
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction


def describe_knobs(store: PluginStore, plugin: str) -> dict[str, Any]:
    """The knobs of an installed plugin. They bind to the project's side of its configuration, where no secret is.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, plugin).manifest
    fit = stored_knob_values(store, manifest)
    given = config_fields(manifest, fit.values)
    return {
        "name": manifest.name,
        "version": manifest.version,
        "knobs": [_knob_to_json(knob, manifest, fit, given) for knob in manifest.knobs],
        "left_out": [one.to_value() for one in fit.left_out],
    }


def stored_knob_values(store: PluginStore, manifest: Manifest) -> KnobFit:
    """What this tenant's people set the knobs of a plugin to, as far as this version takes it."""
    return fit_knob_values(manifest, store.database.read(lambda tx: find_knob_values(tx, store.tenant, manifest.name)))


def _knob_to_json(knob: Knob, manifest: Manifest, fit: KnobFit, given: Mapping[str, Any]) -> dict[str, Any]:
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
        "value": given.get(config_field(knob), default),
    }


def _default_value(knob: Knob, manifest: Manifest) -> Any:
    """What the plugin gets as long as nobody turns the knob: the default of the field, if it has one."""
    fields = cast("dict[str, Any]", (manifest.config_schema or {}).get("properties", {}))
    return fields.get(config_field(knob), {}).get("default")


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A turn that was found right: what was kept, and what is to be."""

    manifest: Manifest
    digest: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def changed_names(self) -> tuple[str, ...]:
        """The knobs that are kept otherwise afterwards."""
        names = sorted({*self.before, *self.after})
        return tuple(name for name in names if _encoded_value(self.before, name) != _encoded_value(self.after, name))

    @property
    def fields(self) -> dict[str, Any]:
        """What the plugin is given for them, where nothing else changes."""
        return config_fields(self.manifest, fit_knob_values(self.manifest, self.after).values)


def plan_knob_change(store: PluginStore, plugin: str, turn: KnobUpdate) -> KnobChange:
    """What a turn of a plugin's knobs comes to.

    Raises:
        NotFound: it is not installed.
        Invalid: the knobs, or the plugin's own schema, do not take the values; with every mistake.
    """
    handle = resolve_plugin(store, plugin)
    kept = store.database.read(lambda tx: find_knob_values(tx, store.tenant, handle.manifest.name))
    return KnobChange(handle.manifest, handle.digest, kept, apply_knob_update(handle.manifest, kept, turn))


def store_knob_change(store: PluginStore, plan: KnobChange) -> None:
    """Keep what was planned, with an entry in the record for each knob that changes.

    Raises:
        Conflict: the plugin or its knobs changed meanwhile; nothing is kept.
    """
    request = new_id("req", store.clock, store.random)

    def unit(tx: Transaction) -> None:
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

    store.database.write(unit)


def _encoded_value(values: Mapping[str, Any], name: str) -> str | None:
    """A value as it is kept; to Python true is 1 as well."""
    return json.dumps(values[name]) if name in values else None
