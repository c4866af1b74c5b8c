"""Knobs: what a person may tune of a plugin, as its manifest declares it."""

from __future__ import annotations

from paddock.http.schemas.building import (
    ANY,
    OBJECT,
    TEXT,
    YES_NO,
    Schema,
    body,
    listed,
    one_of,
    record,
    ref,
    said,
)
from paddock.manifest.knobs import TYPES

TURN = body(
    {
        "knobs": said(OBJECT, "By name, what each is to be; null is its default again."),
        "reset": said(
            {"type": "array", "items": TEXT, "maxItems": 200}, "Names of those to be at their defaults again."
        ),
    },
    example={"knobs": {"units": "imperial"}, "reset": ["days"]},
)

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
            "set": said(YES_NO, "Whether somebody turned it; it is at its default otherwise."),
            "default": said(ANY, "What the plugin is given as long as nobody turns it; null where there is nothing."),
            "value": said(ANY, "What the plugin is given now."),
        }
    ),
    "Knobs": record(
        {
            "name": TEXT,
            "version": TEXT,
            "knobs": listed(ref("Knob")),
            "left_out": said(
                listed(record({"knob": TEXT, "value": ANY, "reason": TEXT})),
                "What was set, and does not fit this version: it is kept, and the plugin is given the default.",
            ),
        }
    ),
}
