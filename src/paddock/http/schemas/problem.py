"""What goes wrong, in each of the frames that a route may answer it in."""

from __future__ import annotations

from paddock.core.errors import Category
from paddock.http.schemas.building import (
    COUNT,
    OBJECT,
    TEXT,
    YES_NO,
    Schema,
    listed,
    one_of,
    record,
    ref,
    said,
)

MISTAKE: Schema = record(
    {"path": TEXT, "message": TEXT, "code": TEXT, "hint": TEXT, "line": COUNT},
    optional=("hint", "line"),
    says="One mistake in what was sent: where it is, what is wrong, and what would be right.",
)

_ERROR: dict[str, Schema] = {
    "code": TEXT,
    "message": TEXT,
    "category": one_of(one.value for one in Category),
    "retryable": YES_NO,
    "details": OBJECT,
    "hint": TEXT,
    "errors": listed(ref("Mistake")),
}

_PROBLEM: dict[str, Schema] = {
    "type": TEXT,
    "title": TEXT,
    "status": {"type": "integer", "minimum": 400, "maximum": 599},
    "code": said(TEXT, "Stable; the same one stands in the command line's JSON and in the ledger."),
    "detail": TEXT,
    "error_id": said(TEXT, "The daemon's log has it too."),
    "errors": listed(ref("Mistake")),
    "message": TEXT,
    "hint": TEXT,
    "category": one_of(one.value for one in Category),
    "retryable": YES_NO,
    "details": OBJECT,
    "instance": said(TEXT, "The call that failed, where one was begun."),
}

_SHU_ENVELOPE = record(
    {
        "code": said(TEXT, "As `HTTP_500`."),
        "message": record({"error": TEXT, "message": TEXT}),
        "details": OBJECT,
        "error_id": TEXT,
    },
    says="The same error in Shu's envelope.",
)

PLUGIN_ERROR: Schema = record(
    {
        "code": said(TEXT, "As `PLUGIN_NOT_FOUND`."),
        "message": TEXT,
        "plugin_id": TEXT,
        "recoverable": YES_NO,
        "suggested_action": TEXT,
    },
    optional=("plugin_id", "suggested_action"),
    says="OSQR's PluginError.",
)

SCHEMAS: dict[str, Schema] = {
    "Mistake": MISTAKE,
    "Error": record(_ERROR, optional=("hint", "errors"), says="An error as part of an answer. `code` is stable."),
    "Problem": record(_PROBLEM, optional=("instance",), says="What went wrong (RFC 9457)."),
    "ShuProblem": record({**_PROBLEM, "error": _SHU_ENVELOPE}, optional=("instance",)),
    "PluginError": PLUGIN_ERROR,
    "Trouble": record(
        {"about": one_of(("ledger", "checkpoints", "rules")), **_ERROR},
        optional=("hint", "errors"),
        says="What is wrong with the daemon itself.",
    ),
}
