"""The envelopes that some documents put around parameters and results, and what is inside. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from paddock.core.call import CallContext, OutcomeStatus
from paddock.core.errors import CallerError, Denied, PaddockError, PluginError, Problem, TimedOut
from paddock.core.printable import printable
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, PluginKind, RemoteRuntime
from paddock.plugins.dialects.operator_result import fill_artifact_hashes, operator_result_problems
from paddock.rpc.errors import NO_EFFECT

_MAX_MESSAGE_CHARS = 2_000
# What plugins refuse a call with before they begin with it, as the Kernel's document has it.
_NO_EFFECT_CODES = frozenset({"VALIDATION_ERROR", "PERMISSION_DENIED", "POLICY_DENIED"})


class OutputInvalid(PluginError):
    """A plugin's answer breaks the schema that the plugin itself declares."""

    code = "output_validation_error"

    def __init__(self, plugin: str, callable_name: str, broken: Sequence[Problem]) -> None:
        super().__init__(
            f"{plugin} answered {callable_name} with something else than it declares",
            hint=str(broken[0]),
            details={"plugin": plugin, "errors": [problem.to_dict() for problem in broken[:20]]},
        )


class InProgress(PluginError):
    """An operator has begun with a call, and is not through with it: it is asked again later.

    `result` is what it wants to be told then; `retry_after` when it wants to be asked, in seconds, where it says so.
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


def request_envelope(manifest: Manifest, context: CallContext, needed: Iterable[str]) -> dict[str, Any]:
    """What a call's surroundings are in the words of the plugin's own document; `needed` are the scopes it takes."""
    if manifest.dialect not in (Dialect.SHU, Dialect.KERNEL):
        return {}
    principal = context.principal
    scopes = sorted(principal.effective_scopes(needed))
    if manifest.dialect is Dialect.SHU:
        return {
            "user_id": principal.id,
            "tenant_id": context.tenant,
            "permissions": scopes,
            "request_id": context.request,
            "session_id": context.session,
        }
    of_operators = _operator_envelope(context) if manifest.kind is PluginKind.OPERATOR else {}
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
        "idempotency_key": context.idempotency_key or context.request,  # without one each request is for itself
        **of_operators,
    }


def _operator_envelope(context: CallContext) -> dict[str, Any]:
    """What only operators are told: what the rules said, and where they stand with a call that is made once more."""
    told: dict[str, Any] = {"policy_snapshot": None if context.policy is None else asdict(context.policy)}
    if context.so_far is not None:
        told["in_progress"] = asdict(context.so_far)
    return told


def result_value(manifest: Manifest, result: Any) -> Any:
    """What an output schema speaks of: the value inside the envelope."""
    return unwrap_field(result_field(manifest), result)


def result_field(manifest: Manifest) -> str | None:
    """The field of the envelope that has the value in it; None where there is no envelope."""
    return "structuredContent" if is_mcp_server(manifest) else _RESULT_FIELDS.get((manifest.dialect, manifest.kind))


def unwrap_field(field: str | None, result: Any) -> Any:
    """What a field of the envelope holds; the whole where there is no envelope."""
    return result if field is None else _as_mapping(result).get(field)


def is_mcp_server(manifest: Manifest) -> bool:
    """Whether the plugin is an MCP server, here or elsewhere."""
    runtime = manifest.runtime
    return isinstance(runtime, RemoteRuntime) or (isinstance(runtime, CommandRuntime) and runtime.protocol == "mcp")


def raise_if_failed(manifest: Manifest, result: Any) -> Any:
    """The result, unless its envelope says that the call failed, or is not over.

    Raises:
        PaddockError: it does; carries the plugin's own words.
        OutputInvalid: it is no answer of an operator; carries all that is wrong with it.
        InProgress: the operator is still at work.
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


# Where the value is inside the envelope; what is not here has none.
_RESULT_FIELDS = {
    (Dialect.SHU, PluginKind.PLUGIN): "data",
    (Dialect.KERNEL, PluginKind.TOOL): "result",
    (Dialect.KERNEL, PluginKind.OPERATOR): "result",
}
