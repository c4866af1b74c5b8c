"""What a person may tune of a plugin: its knobs, with what the plugin is given for each."""

from __future__ import annotations

from typing import Any, cast

from paddock.manifest.knobs import value_schema
from paddock.manifest.model import Knob, Manifest
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import resolve_plugin


def knobs_of(store: PluginStore, plugin: str) -> dict[str, Any]:
    """The knobs of an installed plugin. They bind to the project's side of its configuration, where no secret is.

    Raises:
        NotFound: it is not installed.
    """
    row = resolve_plugin(store, plugin)
    manifest = row.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "knobs": [_shown(knob, manifest) for knob in manifest.knobs],
    }


def _shown(knob: Knob, manifest: Manifest) -> dict[str, Any]:
    return {
        "name": knob.name,
        "type": knob.type,
        "label": knob.label,
        "description": knob.description,
        "binds_to": knob.binds_to,
        "options": dict(knob.options),
        "accepts": dict(value_schema(knob)),
        "value": _given(knob, manifest),
    }


def _given(knob: Knob, manifest: Manifest) -> Any:
    """What the plugin gets as long as no project says otherwise: the default of the field, if it has one."""
    fields = cast("dict[str, Any]", (manifest.config_schema or {}).get("properties", {}))
    return fields.get(knob.binds_to.removeprefix("config."), {}).get("default")
