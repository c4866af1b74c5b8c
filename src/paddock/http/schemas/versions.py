"""Versions and activation, in OSQR's shapes."""

from __future__ import annotations

from paddock.http.schemas.building import TEXT, TEXTS, TIME, YES_NO, Schema, body, listed, maybe, record, said

_VERSION: Schema = {"type": "string", "minLength": 1, "maxLength": 256}

PIN = body(
    {"version": said({**_VERSION, "type": ["string", "null"]}, "Null lets it move again.")},
    required=("version",),
    example={"version": "1.2.0"},
)
ROLLBACK = body(
    {
        "version": said(_VERSION, "The last one before this where it is left out."),
        "grant": said({"type": "array", "items": TEXT, "maxItems": 200}, "What it asks for and nobody granted."),
    },
    example={"version": "1.2.0"},
)
ACTIVATE = body({"user_confirmation": YES_NO}, required=("user_confirmation",), example={"user_confirmation": True})

SCHEMAS: dict[str, Schema] = {
    "Pinned": record({"success": YES_NO, "pinned_version": maybe(TEXT), "version": said(TEXT, "In use now.")}),
    "RolledBack": record({"success": YES_NO, "old_version": TEXT, "version": TEXT}),
    "Activated": record(
        {
            "success": YES_NO,
            "behavioral_summary": said(TEXT, "How it behaves, in the words of its consent screen."),
            "tools_available": TEXTS,
            "resources_available": TEXTS,
        }
    ),
    "Deactivated": record({"success": YES_NO, "transition_message": TEXT}),
    "ActivePlugins": record(
        {"plugins": listed(record({"id": TEXT, "name": TEXT, "activated_at": maybe(TIME), "tools": TEXTS}))}
    ),
}
