"""Request and result envelopes of some dialects: wraps parameters, unwraps results and maps failures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import asdict

from paddock.core.call import CallContext, OutcomeStatus
from paddock.core.errors import CallerError, Denied, PaddockError, PluginError, Problem, TimedOut
from paddock.core.printable import printable
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, PluginKind, RemoteRuntime
from paddock.plugins.dialects.operator_result import fill_artifact_hashes, operator_result_problems
from paddock.rpc.errors import NO_EFFECT

_MAX_MESSAGE_CHARS = 2_000
# Codes by which plugins reject a call before they start it, by the Kernel's specification.
_NO_EFFECT_CODES = frozenset({"VALIDATION_ERROR", "PERMISSION_DENIED", "POLICY_DENIED"})


class OutputInvalid(PluginError):
    """A plugin's result violates the schema that the plugin itself declares."""

    code = "output_validation_error"

    def __init__(self, plugin: str, callable_name: str, problems: Sequence[Problem]) -> None:
        super().__init__(
            f"{plugin} answered {callable_name} with something else than it declares",
            hint=str(problems[0]),
            details={"plugin": plugin, "errors": [problem.to_dict() for problem in problems[:20]]},
        )


class InProgress(PluginError):
    """An operator has started a call and has not finished it: it is polled later.

    `result` is the state it wants back then; `retry_after` is when it wants to be polled, in seconds, if it says so.
    """

    code = "call.in_progress"

    def __init__(self, plugin: str, answer: Mapping[str, Any]) -> None:
        super().__init__(
            f"{plugin} is still at work on it",
            hint="a host follows it to its end; here nobody does",
            details={"plugin": plugin},
        )
        self.result = answer.get("result")
        self.retry_after: float | None = answer.get("retry_after_s")


def request_envelope(manifest: Manifest, context: CallContext, required_scopes: Iterable[str]) -> dict[str, Any]:
    """Build the call context in the envelope of the plugin's dialect; `required_scopes` are the scopes it needs."""
    if manifest.dialect not in (Dialect.SHU, Dialect.KERNEL):
        return {}
    principal = context.principal
    scopes = sorted(principal.effective_scopes(required_scopes))
    if manifest.dialect is Dialect.SHU:
        return {
            "user_id": principal.id,
            "tenant_id": context.tenant,
            "permissions": scopes,
            "request_id": context.request,
            "session_id": context.session,
        }
    operator_fields = _operator_envelope(context) if manifest.kind is PluginKind.OPERATOR else {}
    return {
        "auth_context": {
            "tenant_id": context.tenant,
            "principal_id": principal.id,
            "scopes": scopes,
        },
        "trace_context": {
            "workflow_id": context.workflow,
            "step_id": context.step,
            "correlation_id": context.request,
        },
        "idempotency_key": context.idempotency_key or context.request,  # without a key each request stands alone
        **operator_fields,
    }


def _operator_envelope(context: CallContext) -> dict[str, Any]:
    """Build the fields that only operators get: the policy decision, and the progress of a call that is polled."""
    fields: dict[str, Any] = {"policy_snapshot": None if context.policy is None else asdict(context.policy)}
    if context.so_far is not None:
        fields["in_progress"] = asdict(context.so_far)
    return fields


def result_value(manifest: Manifest, result: Any) -> Any:
    """Return the value that an output schema describes: the one inside the envelope."""
    return unwrap_field(result_field(manifest), result)


def result_field(manifest: Manifest) -> str | None:
    """Return the envelope's field that holds the value; None if there is no envelope."""
    return "structuredContent" if is_mcp_server(manifest) else _RESULT_FIELDS.get((manifest.dialect, manifest.kind))


def unwrap_field(field: str | None, result: Any) -> Any:
    """Return the envelope's field; the whole result if there is no envelope."""
    return result if field is None else _as_mapping(result).get(field)


def is_mcp_server(manifest: Manifest) -> bool:
    """Whether the plugin is an MCP server, local or remote."""
    runtime = manifest.runtime
    return isinstance(runtime, RemoteRuntime) or (isinstance(runtime, CommandRuntime) and runtime.protocol == "mcp")


def raise_if_failed(manifest: Manifest, result: Any) -> Any:
    """Return the result, unless its envelope says that the call failed or is still in progress.

    Raises:
        PaddockError: it failed; carries the plugin's own message.
        OutputInvalid: it is not a valid operator result; carries all problems.
        InProgress: the operator is still working.
    """
    if (manifest.dialect, manifest.kind) not in _RESULT_FIELDS:
        return result
    fields = _as_mapping(result)
    if manifest.kind is PluginKind.OPERATOR:
        if problems := operator_result_problems(result):
            raise OutputInvalid(manifest.name, manifest.name, problems)
        if fields["status"] == OutcomeStatus.IN_PROGRESS:
            raise InProgress(manifest.name, fields)
        result = fill_artifact_hashes(fields)
    error = fields.get("error")
    if error is None and fields.get("status") not in ("error", "timeout", "failed"):
        return result
    raise _failure_error(manifest, _as_mapping(error), timed_out=fields.get("status") == "timeout", envelope=fields)


def _failure_error(manifest: Manifest, error: Mapping[str, Any], *, timed_out: bool, envelope: Any) -> PaddockError:
    message = printable(str(error.get("message") or ""), _MAX_MESSAGE_CHARS) or "the plugin gave no reason"
    code = printable(str(error.get("code") or ""), 128)
    details = {"plugin": manifest.name, "plugin_code": code, "envelope": envelope}
    if timed_out:
        return TimedOut(message, details=details)
    if code in _NO_EFFECT_CODES or error.get(NO_EFFECT) is True:
        details[NO_EFFECT] = True
    match code:
        case "VALIDATION_ERROR":
            return CallerError(message, code="invalid_params", details=details)
        case "PERMISSION_DENIED":
            return Denied(message, code="permission_denied", details=details)
        case _:
            return PluginError(message, details=details)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


# The envelope's field that holds the value; other dialects have no envelope.
_RESULT_FIELDS = {
    (Dialect.SHU, PluginKind.PLUGIN): "data",
    (Dialect.KERNEL, PluginKind.TOOL): "result",
    (Dialect.KERNEL, PluginKind.OPERATOR): "result",
}
