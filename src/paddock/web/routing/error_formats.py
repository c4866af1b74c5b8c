"""Error formats: our problem body, and those of the specifications whose routes we serve (Shu, OSQR, MCP)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from paddock.core.action import action_kinds
from paddock.core.error_mapping import mcp_error, osqr_plugin_error, problem_details, shu_envelope
from paddock.core.errors import Category, PaddockError
from paddock.web.routing.schema import (
    BOOLEAN,
    NON_NEGATIVE_INT,
    OBJECT,
    TEXT,
    Schema,
    array_of,
    describe,
    enum_of,
    object_schema,
    ref,
)

PROBLEM_MEDIA_TYPE = "application/problem+json"


class ErrorFormat(NamedTuple):
    """How the errors of a route are rendered. `schema` is the name of its OpenAPI component."""

    schema: str
    media_type: str
    render: Callable[[PaddockError, str], dict[str, Any]]


def full_problem(error: PaddockError, error_id: str) -> dict[str, Any]:
    """Render the problem body with the fields from which our CLI rebuilds the same error."""
    fields = {
        "message": error.message,
        "hint": error.hint,
        "category": error.category.value,
        "retryable": error.retryable,
        "details": dict(error.details),
    }
    if error.action is not None:
        fields["action"] = error.action.to_json()
    return problem_details(error, error_id) | fields


def _with_shu_envelope(error: PaddockError, error_id: str) -> dict[str, Any]:
    """Render problem body and Shu envelope in one object; they share no field, so each client reads its own."""
    return full_problem(error, error_id) | shu_envelope(error, error_id)


def _plugin_error(error: PaddockError, error_id: str) -> dict[str, Any]:
    del error_id  # OSQR's format has no field for it; the log has id and code
    return osqr_plugin_error(error)


def _jsonrpc_error(error: PaddockError, error_id: str) -> dict[str, Any]:
    """Render a JSON-RPC error: MCP clients show only that a request failed if it has any other form."""
    rpc_error = mcp_error(error)
    detail = problem_details(error, error_id)["detail"]
    return {
        "jsonrpc": "2.0",
        "id": None,
        "error": rpc_error | {"message": detail, "data": rpc_error["data"] | {"error_id": error_id}},
    }


PROBLEM_FORMAT = ErrorFormat("Problem", PROBLEM_MEDIA_TYPE, full_problem)
SHU_FORMAT = ErrorFormat("ShuProblem", PROBLEM_MEDIA_TYPE, _with_shu_envelope)
OSQR_FORMAT = ErrorFormat("PluginError", "application/json", _plugin_error)
MCP_FORMAT = ErrorFormat("JSONRPCError", "application/json", _jsonrpc_error)

_OSQR_PATH_PREFIX = "/api/plugins/"
_API_PATH_PREFIXES = ("/api/", "/metrics", "/healthz", "/readyz", "/.well-known/")
_MCP_PATHS = re.compile(r"/mcp(/.*)?")
_SHU_PATHS = re.compile(r"/api/v1/plugins/[^/]*/execute")


def is_page_path(path: str) -> bool:
    """Return whether a path belongs to console pages, so that browsers get HTML errors."""
    return not path.startswith(_API_PATH_PREFIXES) and error_format_at(path) is PROBLEM_FORMAT


def error_format_at(path: str) -> ErrorFormat:
    """Return the error format of a path, also for requests rejected before routing."""
    if path.startswith(_OSQR_PATH_PREFIX):
        return OSQR_FORMAT
    if _MCP_PATHS.fullmatch(path):
        return MCP_FORMAT
    return SHU_FORMAT if _SHU_PATHS.fullmatch(path) else PROBLEM_FORMAT


PROBLEM_ITEM_SCHEMA: Schema = object_schema(
    {
        "path": TEXT,
        "message": TEXT,
        "code": TEXT,
        "hint": TEXT,
        "line": NON_NEGATIVE_INT,
        "action": ref("Action"),
    },
    optional=("hint", "line", "action"),
    description="One mistake in what was sent: where it is, what is wrong, and what would be right.",
)

ACTION_SCHEMA: Schema = object_schema(
    {
        "kind": enum_of(action_kinds()),
        "arguments": describe(
            {"type": "object", "additionalProperties": {"type": ["string", "array"], "items": TEXT}},
            "By name, such as `plugin`; only those that are known.",
        ),
    },
    description="What a person can do about the error. The command line shows it as a command, the console as a link.",
)

_ERROR_FIELDS: dict[str, Schema] = {
    "code": TEXT,
    "message": TEXT,
    "category": enum_of(one.value for one in Category),
    "retryable": BOOLEAN,
    "details": OBJECT,
    "hint": TEXT,
    "action": ref("Action"),
    "errors": array_of(ref("Mistake")),
}

_PROBLEM_FIELDS: dict[str, Schema] = {
    "type": TEXT,
    "title": TEXT,
    "status": {"type": "integer", "minimum": 400, "maximum": 599},
    "code": describe(TEXT, "Stable; the same one stands in the command line's JSON and in the ledger."),
    "detail": TEXT,
    "error_id": describe(TEXT, "The daemon's log has it too."),
    "errors": array_of(ref("Mistake")),
    "message": TEXT,
    "hint": TEXT,
    "action": ref("Action"),
    "category": enum_of(one.value for one in Category),
    "retryable": BOOLEAN,
    "details": OBJECT,
    "instance": describe(TEXT, "The call that failed, where one was begun."),
}

_SHU_ENVELOPE = object_schema(
    {
        "code": describe(TEXT, "As `HTTP_500`."),
        "message": object_schema({"error": TEXT, "message": TEXT}),
        "details": OBJECT,
        "error_id": TEXT,
    },
    description="The same error in Shu's envelope.",
)

PLUGIN_ERROR_SCHEMA: Schema = object_schema(
    {
        "code": describe(TEXT, "As `PLUGIN_NOT_FOUND`."),
        "message": TEXT,
        "plugin_id": TEXT,
        "recoverable": BOOLEAN,
        "suggested_action": TEXT,
    },
    optional=("plugin_id", "suggested_action"),
    description="OSQR's PluginError.",
)

ERROR_SCHEMAS: dict[str, Schema] = {
    "Action": ACTION_SCHEMA,
    "Mistake": PROBLEM_ITEM_SCHEMA,
    "Error": object_schema(
        _ERROR_FIELDS,
        optional=("hint", "action", "errors"),
        description="An error as part of an answer. `code` is stable.",
    ),
    "Problem": object_schema(
        _PROBLEM_FIELDS, optional=("instance", "action"), description="What went wrong (RFC 9457)."
    ),
    "ShuProblem": object_schema({**_PROBLEM_FIELDS, "error": _SHU_ENVELOPE}, optional=("instance", "action")),
    "PluginError": PLUGIN_ERROR_SCHEMA,
    "Trouble": object_schema(
        {"about": enum_of(("ledger", "checkpoints", "rules")), **_ERROR_FIELDS},
        optional=("hint", "action", "errors"),
        description="What is wrong with the daemon itself.",
    ),
}
