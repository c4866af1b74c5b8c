"""What goes wrong, in each of the frames that a route may answer it in."""

from __future__ import annotations

from paddock.core.errors import Category
from paddock.http.schemas.building import (
    ANY,
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

ERROR: Schema = record(
    {
        "code": TEXT,
        "message": TEXT,
        "category": one_of(one.value for one in Category),
        "retryable": YES_NO,
        "details": OBJECT,
        "hint": TEXT,
        "errors": listed(ref("Mistake")),
    },
    optional=("hint", "errors"),
    says="An error as part of an answer. `code` is stable.",
)

PROBLEM: Schema = record(
    {
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
    },
    optional=("instance",),
    says="What went wrong (RFC 9457).",
)

SHU_PROBLEM: Schema = {
    "description": "A problem, with Shu's envelope around the same error in `error`.",
    "allOf": [
        ref("Problem"),
        record(
            {
                "error": record(
                    {
                        "code": said(TEXT, "As `HTTP_500`."),
                        "message": record({"error": TEXT, "message": TEXT}),
                        "details": OBJECT,
                        "error_id": TEXT,
                    }
                )
            }
        ),
    ],
}

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

TROUBLE: Schema = {
    "allOf": [ref("Error"), record({"about": one_of(("ledger", "checkpoints", "rules"))})],
    "description": "What is wrong with the daemon itself.",
}

SCHEMAS: dict[str, Schema] = {
    "Mistake": MISTAKE,
    "Error": ERROR,
    "Problem": PROBLEM,
    "ShuProblem": SHU_PROBLEM,
    "PluginError": PLUGIN_ERROR,
    "Trouble": TROUBLE,
    "Anything": ANY,
}
