"""Error formats: our problem body, and those of the specifications whose routes we serve (Shu, OSQR, MCP)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, NotRequired

from paddock.core.action import ActionJson
from paddock.core.error_formats import (
    PluginErrorJson,
    ProblemDetailsJson,
    ShuErrorJson,
    mcp_error,
    osqr_plugin_error,
    problem_details,
    shu_envelope,
)
from paddock.core.errors import Category, PaddockError

PROBLEM_MEDIA_TYPE = "application/problem+json"


class ProblemJson(ProblemDetailsJson):
    """An error response (RFC 9457), with the fields from which the command line rebuilds the error."""

    message: str
    hint: str
    category: Category
    retryable: bool
    details: dict[str, Any]
    action: NotRequired[ActionJson]
    instance: NotRequired[Annotated[str, "The URL of the call that failed, if one was started."]]


class ShuProblemJson(ProblemJson):
    """An error response with Shu's envelope beside our own fields."""

    error: ShuErrorJson


class ErrorFormat(NamedTuple):
    """How the errors of a route are rendered, and the type of the rendered body."""

    body_type: Any
    media_type: str
    render: Callable[[PaddockError, str], Mapping[str, Any]]


def full_problem(error: PaddockError, error_id: str) -> ProblemJson:
    """Render the problem body with the fields from which our CLI rebuilds the same error."""
    problem: ProblemJson = {
        **problem_details(error, error_id),
        "message": error.message,
        "hint": error.hint,
        "category": error.category,
        "retryable": error.retryable,
        "details": dict(error.details),
    }
    if error.action is not None:
        problem["action"] = error.action.to_json()
    return problem


def _with_shu_envelope(error: PaddockError, error_id: str) -> ShuProblemJson:
    """Render problem body and Shu envelope in one object; they share no field, so each client reads its own."""
    return {**full_problem(error, error_id), **shu_envelope(error, error_id)}


def _plugin_error(error: PaddockError, error_id: str) -> PluginErrorJson:
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


PROBLEM_FORMAT = ErrorFormat(ProblemJson, PROBLEM_MEDIA_TYPE, full_problem)
SHU_FORMAT = ErrorFormat(ShuProblemJson, PROBLEM_MEDIA_TYPE, _with_shu_envelope)
OSQR_FORMAT = ErrorFormat(PluginErrorJson, "application/json", _plugin_error)
MCP_FORMAT = ErrorFormat(dict[str, Any], "application/json", _jsonrpc_error)

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
