"""What a person may tune of a plugin: its knobs, with what the plugin is given for each, and turning them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.config.knob_values import Fitting, Turn, field_of, fields_set, fitting, turned
from paddock.core.errors import Conflict
from paddock.core.events_host import PluginKnobWrite
from paddock.core.ids import new_id
from paddock.manifest.knobs import value_schema
from paddock.manifest.model import Knob, Manifest
from paddock.plugins.knob_rows import forget_knob, keep_knob, kept_knobs
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import require_plugin, resolve_plugin
from paddock.plugins.rows import find_version
from paddock.store.database import Transaction


def knobs_of(store: PluginStore, plugin: str) -> dict[str, Any]:
    """The knobs of an installed plugin. They bind to the project's side of its configuration, where no secret is.

    Raises:
        NotFound: it is not installed.
    """
    manifest = resolve_plugin(store, plugin).manifest
    fit = fitting_of(store, manifest)
    given = fields_set(manifest, fit.values)
    return {
        "name": manifest.name,
        "version": manifest.version,
        "knobs": [_shown(knob, manifest, fit, given) for knob in manifest.knobs],
        "left_out": [one.to_value() for one in fit.left_out],
    }


def fitting_of(store: PluginStore, manifest: Manifest) -> Fitting:
    """What this tenant's people set the knobs of a plugin to, as far as this version takes it."""
    return fitting(manifest, store.database.read(lambda tx: kept_knobs(tx, store.tenant, manifest.name)))


def _shown(knob: Knob, manifest: Manifest, fit: Fitting, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": knob.name,
        "type": knob.type,
        "label": knob.label,
        "description": knob.description,
        "binds_to": knob.binds_to,
        "options": dict(knob.options),
        "accepts": dict(value_schema(knob)),
        "set": knob.name in fit.values,
        "default": (default := _default(knob, manifest)),
        "value": given.get(field_of(knob), default),
    }


def _default(knob: Knob, manifest: Manifest) -> Any:
    """What the plugin gets as long as nobody turns the knob: the default of the field, if it has one."""
    fields = cast("dict[str, Any]", (manifest.config_schema or {}).get("properties", {}))
    return fields.get(field_of(knob), {}).get("default")


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn that was found right: what was kept, and what is to be."""

    manifest: Manifest
    digest: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def changed(self) -> tuple[str, ...]:
        """The knobs that are kept otherwise afterwards."""
        names = sorted({*self.before, *self.after})
        return tuple(name for name in names if _written(self.before, name) != _written(self.after, name))

    @property
    def fields(self) -> dict[str, Any]:
        """What the plugin is given for them, where nothing else changes."""
        return fields_set(self.manifest, fitting(self.manifest, self.after).values)


def plan_turn(store: PluginStore, plugin: str, turn: Turn) -> Plan:
    """What a turn of a plugin's knobs comes to.

    Raises:
        NotFound: it is not installed.
        Invalid: the knobs, or the plugin's own schema, do not take the values; with every mistake.
    """
    handle = resolve_plugin(store, plugin)
    kept = store.database.read(lambda tx: kept_knobs(tx, store.tenant, handle.manifest.name))
    return Plan(handle.manifest, handle.digest, kept, turned(handle.manifest, kept, turn))


def carry_out(store: PluginStore, plan: Plan) -> None:
    """Keep what was planned, with an entry in the record for each knob that changes.

    Raises:
        Conflict: the plugin or its knobs changed meanwhile; nothing is kept.
    """
    request = new_id("req", store.clock, store.random)

    def unit(tx: Transaction) -> None:
        plugin = require_plugin(tx, plan.manifest.name)
        version = find_version(tx, plugin.name, plugin.current_version)
        same = version is not None and version.digest == plan.digest
        if not same or kept_knobs(tx, store.tenant, plugin.name) != plan.before:
            raise Conflict(
                f"{plugin.name} changed while its knobs were turned",
                code="plugin.changed_meanwhile",
                hint="look at its knobs, and turn them again",
            )
        for knob in plan.changed:
            if knob in plan.after:
                keep_knob(tx, store.tenant, plugin.name, knob, plan.after[knob], store.now())
            else:
                forget_knob(tx, store.tenant, plugin.name, knob)
            store.publish(tx, PluginKnobWrite(name=plugin.name, knob=knob, agent_path=None, request_id=request))

    store.database.write(unit)


def _written(values: Mapping[str, Any], name: str) -> str | None:
    """A value as it is kept; to Python true is 1 as well."""
    return json.dumps(values[name]) if name in values else None
