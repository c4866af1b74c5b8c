"""Maps errors to exit codes, HTTP, JSON-RPC, MCP and other formats: the one place that translates them.

Every table is keyed by `Category`, so a new error needs no entry here; a few codes to which a source document gives
a meaning of their own are in `*_BY_CODE`. All functions are pure: the caller brings the `error_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict, cast

from paddock.core.action import Action, ActionJson, with_sentence
from paddock.core.errors import (
    Busy,
    CallerError,
    Category,
    Conflict,
    Denied,
    Failed,
    HostError,
    Invalid,
    MistakeJson,
    Modified,
    NeedsApproval,
    NeedsConsent,
    NotFound,
    OperatorError,
    PaddockError,
    PluginError,
    Problem,
    StoreUnavailable,
    TimedOut,
    Unavailable,
    Unreachable,
)
from paddock.core.schema_annotations import MemberConstraint

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # what a shell shows for other programs when the reader of their output went away

EXIT_CODES: Mapping[Category, int] = {
    Category.VALIDATION: 6,
    Category.NOT_FOUND: 3,
    Category.AUTHORIZATION: 4,
    Category.POLICY: 5,
    Category.CONFLICT: EXIT_FAILED,
    Category.TRANSIENT: 7,
    Category.DEPENDENCY: EXIT_FAILED,
    Category.PLUGIN: 7,
    Category.TIMEOUT: 8,
    Category.INTERNAL: EXIT_FAILED,
}

JSON_RPC_CODES: Mapping[Category, int] = {
    Category.VALIDATION: -32602,
    Category.NOT_FOUND: -32601,
    Category.AUTHORIZATION: -32001,
    Category.POLICY: -32001,
    Category.CONFLICT: -32000,
    Category.TRANSIENT: -32005,
    Category.DEPENDENCY: -32603,
    Category.PLUGIN: -32000,
    Category.TIMEOUT: -32603,
    Category.INTERNAL: -32603,
}
JSON_RPC_BY_CODE: Mapping[str, int] = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "method_not_found": -32601,
    "invalid_params": -32602,
    "plugin_error": -32000,
    "capability_denied": -32001,
    "not_initialized": -32002,
    "storage_access_denied": -32003,
    "config_invalid": -32004,
    "resource_busy": -32005,
    "not_applicable": -32006,
}

HTTP_STATUS: Mapping[Category, int] = {
    Category.VALIDATION: 400,
    Category.NOT_FOUND: 404,
    Category.AUTHORIZATION: 403,
    Category.POLICY: 403,
    Category.CONFLICT: 409,
    Category.TRANSIENT: 503,
    Category.DEPENDENCY: 503,
    Category.PLUGIN: 502,
    Category.TIMEOUT: 504,
    Category.INTERNAL: 500,
}
HTTP_STATUS_BY_CODE: Mapping[str, int] = {
    "output_validation_error": 500,  # a plugin broke its own output schema
    "resource_busy": 429,
    "rate_limited": 429,
    "quota_exceeded": 429,
    "approval.too_many": 429,
    "answer.invalid": 422,  # the address and the form are right, and the question stays open
    "auth.needed": 401,  # no credential
    "auth.refused": 401,
    "http.body_too_large": 413,
    "http.not_json": 415,
    "http.method_not_allowed": 405,
    "http.headers_too_large": 431,
    "http.too_slow": 408,
    "http.wrong_host": 421,  # the request is for another host
}

TITLES: Mapping[Category, str] = {
    Category.VALIDATION: "The request is not valid",
    Category.NOT_FOUND: "Not found",
    Category.AUTHORIZATION: "A person has to agree first",
    Category.POLICY: "Denied by policy",
    Category.CONFLICT: "Conflict with the present state",
    Category.TRANSIENT: "Temporarily unavailable",
    Category.DEPENDENCY: "Something this needs is unavailable",
    Category.PLUGIN: "The plugin failed",
    Category.TIMEOUT: "It took too long",
    Category.INTERNAL: "Internal error",
}
TITLES_BY_CODE: Mapping[str, str] = {
    "auth.needed": "A credential is needed",
    "auth.refused": "The credential is not good",
    "auth.not_for_you": "Not for this caller",
}

# MCP has the standard JSON-RPC numbers and counts an unknown name among wrong parameters.
MCP_CODES: Mapping[Category, int] = {
    Category.VALIDATION: -32602,
    Category.NOT_FOUND: -32602,
    Category.AUTHORIZATION: -32600,
    Category.POLICY: -32600,
    Category.CONFLICT: -32600,
    Category.TRANSIENT: -32603,
    Category.DEPENDENCY: -32603,
    Category.PLUGIN: -32603,
    Category.TIMEOUT: -32603,
    Category.INTERNAL: -32603,
}

# OSQR: whether the person can simply retry, and what to suggest when the error itself has no hint.
OSQR_RECOVERY: Mapping[Category, tuple[bool, str]] = {
    Category.VALIDATION: (True, "Correct the input and try again"),
    Category.NOT_FOUND: (True, "Check the name"),
    Category.AUTHORIZATION: (True, "Confirm the request"),
    Category.POLICY: (False, "Ask an administrator"),
    Category.CONFLICT: (True, "Look at the present state and try again"),
    Category.TRANSIENT: (True, "Try again"),
    Category.DEPENDENCY: (True, "Try again later"),
    Category.PLUGIN: (False, "Contact creator"),
    Category.TIMEOUT: (True, "Try again"),
    Category.INTERNAL: (False, "Contact support"),
}

# The type of an error that arrives as data, by its code where it has its type's own, else by its category.
ERROR_TYPES_BY_CODE: Mapping[str, type[PaddockError]] = {
    error_type.code: error_type for error_type in (OperatorError, Modified, Failed, NeedsApproval)
}
ERROR_TYPES: Mapping[Category, type[PaddockError]] = {
    Category.VALIDATION: CallerError,
    Category.NOT_FOUND: NotFound,
    Category.AUTHORIZATION: NeedsConsent,
    Category.POLICY: Denied,
    Category.CONFLICT: Conflict,
    Category.TRANSIENT: Busy,
    Category.DEPENDENCY: Unreachable,
    Category.PLUGIN: PluginError,
    Category.TIMEOUT: TimedOut,
    Category.INTERNAL: HostError,
}
RETRYABLE_ERROR_TYPES: Mapping[Category, type[PaddockError]] = {
    Category.DEPENDENCY: StoreUnavailable,
    Category.PLUGIN: Unavailable,
}


def exit_code(error: PaddockError) -> int:
    """The exit status of a command that ends with this error."""
    return EXIT_CODES[error.category]


def http_status(error: PaddockError) -> int:
    return HTTP_STATUS_BY_CODE.get(error.error_code, HTTP_STATUS[error.category])


class ErrorJson(TypedDict):
    """An error as part of a response."""

    code: Annotated[str, "Stable: the same in the output of commands and in the ledger."]
    message: str
    category: Category
    retryable: bool
    details: dict[str, Any]
    hint: NotRequired[str]
    action: NotRequired[ActionJson]
    errors: NotRequired[list[MistakeJson]]


def error_to_json(error: PaddockError) -> ErrorJson:
    """The error as data: the output of `--json`, and part of the other formats."""
    body: ErrorJson = {
        "code": error.error_code,
        "message": error.message,
        "category": error.category,
        "retryable": error.retryable,
        "details": dict(error.details),
    }
    if error.hint:
        body["hint"] = error.hint
    if error.action is not None:
        body["action"] = error.action.to_json()
    if isinstance(error, Invalid):
        body["errors"] = [problem.to_dict() for problem in error.problems]
    return body


def error_from_problem(body: Any, status: int = 500) -> PaddockError:
    """Rebuild the error from a problem body or from `error_to_json`: same code, message, details and exit code.

    Args:
        body: The data; anything else than an object gives an internal error.
        status: The HTTP status, for a body that says nothing.
    """
    problem = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    message = str(problem.get("message") or problem.get("detail") or f"HTTP {status}")
    code, hint = str(problem.get("code") or "daemon.unclear"), str(problem.get("hint") or "")
    action, details = Action.from_json(problem.get("action")), cast("dict[str, Any]", problem.get("details") or {})
    try:
        category = Category(problem.get("category", "internal"))
    except ValueError:
        category = Category.INTERNAL
    if category is Category.VALIDATION and (problems := problem.get("errors")):
        items = [problem_from_dict(item) for item in problems]
        return Invalid(message, items, code=code, hint=hint, action=action, details=details)
    error_type = ERROR_TYPES_BY_CODE.get(code)
    if error_type is None or error_type.category is not category:
        retryable_type = RETRYABLE_ERROR_TYPES.get(category) if problem.get("retryable") else None
        error_type = retryable_type or ERROR_TYPES[category]
    # Not always as the type says: a call that timed out and may have happened is not retryable.
    retryable = problem.get("retryable")
    return error_type(
        message,
        code=code,
        hint=hint,
        action=action,
        details=details,
        retryable=retryable if isinstance(retryable, bool) else None,
    )


def problem_from_dict(value: dict[str, Any]) -> Problem:
    return Problem(
        str(value.get("path", "")),
        str(value.get("message", "")),
        str(value.get("hint", "")),
        str(value.get("code", "invalid")),
        value.get("line"),
        Action.from_json(value.get("action")),
    )


def json_rpc_error(error: PaddockError) -> dict[str, Any]:
    """The `error` member of a JSON-RPC response."""
    number = JSON_RPC_BY_CODE.get(error.error_code, JSON_RPC_CODES[error.category])
    return {"code": number, "message": error.message, "data": error_to_json(error)}


class ProblemDetailsJson(TypedDict):
    """An error response (RFC 9457)."""

    type: str
    title: str
    status: Annotated[int, MemberConstraint(minimum=400, maximum=599)]
    code: Annotated[str, "Stable: the same in the output of commands and in the ledger."]
    detail: str
    error_id: Annotated[str, "Also in the daemon's log."]
    errors: list[MistakeJson]


def problem_details(error: PaddockError, error_id: str) -> ProblemDetailsJson:
    """The body of an HTTP error response."""
    return {
        "type": f"urn:paddock:error:{error.error_code}",
        "title": TITLES_BY_CODE.get(error.error_code, TITLES[error.category]),
        "status": http_status(error),
        "code": error.error_code,
        "detail": _detail_text(error),
        "error_id": error_id,
        "errors": [problem.to_dict() for problem in error.problems] if isinstance(error, Invalid) else [],
    }


def _detail_text(error: PaddockError) -> str:
    """All in one line, for clients that show no more than this; of several problems it has the first."""
    text = error.message
    if isinstance(error, Invalid) and error.problems:
        first = error.problems[0]
        text += f": {first.path}: {first.message}" if first.path else f": {first.message}"
        text += f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
    remedy = with_sentence(error.hint, error.action) if error.action else error.hint
    return f"{text}. {remedy}" if remedy else text


def mcp_error(error: PaddockError) -> dict[str, Any]:
    """A protocol error for an MCP client: the request itself was not served."""
    return {"code": MCP_CODES[error.category], "message": error.message, "data": error_to_json(error)}


def mcp_tool_result(error: PaddockError) -> dict[str, Any]:
    """A failed tool call for an MCP client, in the form that lets a model read why."""
    lines = [error.message, error.hint, error.action.sentence if error.action else ""]
    if isinstance(error, Invalid):
        lines += [str(problem) for problem in error.problems]
    text = "\n".join(line for line in lines if line)
    return {"isError": True, "content": [{"type": "text", "text": text}], "structuredContent": error_to_json(error)}


class ShuErrorMessageJson(TypedDict):
    """The code and the text of an error."""

    error: str
    message: str


class ShuErrorJson(TypedDict):
    """The error in Shu's format."""

    code: Annotated[str, "As `HTTP_500`."]
    message: ShuErrorMessageJson
    details: dict[str, Any]
    error_id: str


class ShuEnvelopeJson(TypedDict):
    """Shu's error envelope."""

    error: ShuErrorJson


def shu_envelope(error: PaddockError, error_id: str) -> ShuEnvelopeJson:
    """Shu's error envelope; its `message` is an object that keeps our code next to the text."""
    details = dict(error.details)
    if isinstance(error, Invalid):
        details["errors"] = [problem.to_dict() for problem in error.problems]
    return {
        "error": {
            "code": f"HTTP_{http_status(error)}",
            "message": {"error": error.error_code, "message": error.message},
            "details": details,
            "error_id": error_id if error_id.startswith("ERR-") else f"ERR-{error_id}",
        }
    }


class PluginErrorJson(TypedDict):
    """OSQR's PluginError."""

    code: Annotated[str, "As `PLUGIN_NOT_FOUND`."]
    message: str
    plugin_id: NotRequired[str]
    recoverable: bool
    suggested_action: NotRequired[str]


def osqr_plugin_error(error: PaddockError) -> PluginErrorJson:
    """OSQR's PluginError; `plugin_id` comes from the error's detail `plugin`."""
    recoverable, suggestion = OSQR_RECOVERY[error.category]
    body: PluginErrorJson = {
        "code": error.error_code.replace(".", "_").upper(),
        "message": error.message,
        "recoverable": recoverable or error.retryable,
        "suggested_action": with_sentence(error.hint, error.action) if error.action else error.hint or suggestion,
    }
    if "plugin" in error.details:
        body["plugin_id"] = error.details["plugin"]
    return body
