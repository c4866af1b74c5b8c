"""Knobs: what a person may tune of a plugin, as its manifest declares it."""

from __future__ import annotations

from paddock.http.schemas.building import ANY, OBJECT, TEXT, Schema, listed, one_of, record, ref, said
from paddock.manifest.knobs import TYPES

SCHEMAS: dict[str, Schema] = {
    "Knob": record(
        {
            "name": TEXT,
            "type": one_of(TYPES),
            "label": TEXT,
            "description": TEXT,
            "binds_to": said(TEXT, "The field of the project's configuration that it writes, as `config.FIELD`."),
            "options": said(OBJECT, "What its type needs besides: `min`, `max`, `values`, `default`, …"),
            "accepts": said(OBJECT, "A JSON Schema of the values that it takes."),
            "value": said(ANY, "What the plugin is given now."),
        }
    ),
    "Knobs": record({"name": TEXT, "version": TEXT, "knobs": listed(ref("Knob"))}),
}
