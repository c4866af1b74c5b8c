"""Translates a plugin's JSON-RPC errors into errors of ours, and builds the error for a plugin that does not run.

Whether a failed call had an effect is known only if the plugin says so. `no_effect` in the details of an error means
that it certainly had none.
"""

from __future__ import annotations

from typing import Any, cast

from paddock.core.action import Action
from paddock.core.errors import (
    Busy,
    CallerError,
    Failed,
    NotFound,
    PaddockError,
    PluginError,
    TimedOut,
    Unavailable,
)
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.plugins.store.rows import UPGRADE_FIRST_HINT
from paddock.rpc.errors import INVALID_REQUEST, NO_ANSWER, NO_EFFECT, RpcError
from paddock.runtime.diagnosis import Diagnosis, read_log
from paddock.runtime.lifecycle import PluginState

_UNANSWERED_CODES = frozenset({NO_ANSWER, INVALID_REQUEST})  # with which transports report that no answer came
_MAX_MESSAGE_CHARS = 2_000
_MAX_HINT_CHARS = 400
_WORKER_EXITED_DATA = {"code": Unavailable.code}  # sent by a worker whose forked process for one call is gone
_SDK_MESSAGE_PREFIX = "the plugin "  # e.g. "the plugin failed (ValueError)"


class MalformedResult(PluginError):
    """The plugin answered, with something that is no result in its protocol."""

    code = "tool.malformed_result"


def to_paddock_error(plugin: str, fault: RpcError, not_started_codes: frozenset[int] = frozenset()) -> PaddockError:
    """Translate a plugin's JSON-RPC error into the error that the caller gets. The plugin's text is made safe to show.

    `not_started_codes` are the error codes by which it says that it has not started the call.
    """
    message = printable(fault.message, _MAX_MESSAGE_CHARS) or "the plugin gave no reason"
    details: dict[str, Any] = {"plugin": plugin, "rpc_code": fault.code}
    if fault.data is not None:
        details["data"] = fault.data
    if fault.code in not_started_codes or _declares_no_effect(fault.data):
        details[NO_EFFECT] = True
    hint = _relayed_hint(plugin, fault.data)
    match fault.code:
        case -32601:
            return NotFound(message, code="method_not_found", details=details)
        case -32602:
            return CallerError(message, code="invalid_params", hint=hint, details=details)
        case -32001:
            return PluginError(message, code="capability_denied", hint=hint, details=details)
        case -32003:
            return PluginError(message, code="storage_access_denied", hint=hint, details=details)
        case -32004:
            return PluginError(message, code="config_invalid", details=details)
        case -32005:
            return Busy(message, details=details)
        case -32006:
            return CallerError(message, code="not_applicable", details=details)
        case -32603 if details.get("data") == _WORKER_EXITED_DATA:
            return Unavailable(
                f"{plugin} ended before it answered: {message}", action=read_log(plugin), details={"plugin": plugin}
            )
        case -32603:
            # Mostly an exception of its code. Its message is for the author and in the log, not for the caller.
            sdk_message = (
                f"{plugin} {message.removeprefix(_SDK_MESSAGE_PREFIX)}"
                if message.startswith(_SDK_MESSAGE_PREFIX)
                else ""
            )
            return PluginError(sdk_message or f"{plugin} failed: {message}", action=read_log(plugin), details=details)
        case _:
            return PluginError(message, hint=hint, details=details)


def _relayed_hint(plugin: str, data: Any) -> str:
    """Return the host's hint where the plugin passes it on. The plugin could have put in anything, so the text names
    its source."""
    hint: Any = cast("dict[str, Any]", data).get("hint") if isinstance(data, dict) else None
    return f"{plugin} passes on: {printable(hint, _MAX_HINT_CHARS)}" if isinstance(hint, str) and hint else ""


def had_no_effect(error: PaddockError) -> bool:
    """Whether the call that failed with this error certainly did nothing."""
    return error.details.get(NO_EFFECT) is True


def is_answered(error: PaddockError) -> bool:
    """Whether the plugin itself answered with this error. Otherwise something failed in between, or its answer was no
    answer."""
    if isinstance(error, Unavailable | TimedOut | MalformedResult):
        return False
    data = error.details.get("data")
    from_transport = isinstance(data, dict) and "http_status" in data
    return not from_transport and error.details.get("rpc_code") not in _UNANSWERED_CODES


def _declares_no_effect(data: Any) -> bool:
    return isinstance(data, dict) and cast("dict[str, Any]", data).get(NO_EFFECT) is True


def describe_error(error: Exception) -> str:
    """Describe in a few words why a request of the host's own failed."""
    if isinstance(error, RpcError):
        return f"error {error.code}: {printable(error.message, 200)}"
    if isinstance(error, PaddockError):
        return error.message
    return "no answer in time" if isinstance(error, TimeoutError) else printable(str(error), 200)


RETRY_SOON_HINT = "try again in a moment"


def unavailable_error(
    plugin: str,
    tenant: Tenant,
    state: PluginState,
    diagnosis: Diagnosis,
    error_code: str = "",
    *,
    restarts: bool = True,
    still_starting: bool = False,
) -> Unavailable:
    """Build the error for callers of a plugin that does not run.

    Args:
        plugin: Its name.
        tenant: The tenant that it would run for.
        state: Its lifecycle state.
        diagnosis: How its last process ended, where that is the reason.
        error_code: The machine-readable reason.
        restarts: Whether it is restarted automatically. A host that runs for one call does not do that.
        still_starting: Whether it may still come up, later than its caller could wait.
    """
    details = {"plugin": plugin, "state": state.value} | ({"reason_code": error_code} if error_code else {})
    error_class = Unavailable
    action = diagnosis.action
    match state:
        case _ if still_starting:
            reason, hint, action = "it is still starting", RETRY_SOON_HINT, None
        case PluginState.FAILED:
            error_class = Failed
            reason, hint = f"it failed: {diagnosis.reason}", diagnosis.hint
            if not hint and action is None:
                hint, action = UPGRADE_FIRST_HINT, Action.of("plugin.enable", plugin=plugin, tenant=tenant)
        case PluginState.CRASHED if restarts:
            reason = f"it is being restarted: {diagnosis.reason}"
            hint = f"{RETRY_SOON_HINT}; {diagnosis.hint}" if diagnosis.hint else RETRY_SOON_HINT
        case PluginState.CRASHED:
            reason, hint = diagnosis.reason, diagnosis.hint
            action = action or (None if hint else read_log(plugin))
        case PluginState.DISABLED:
            reason, hint, action = "it is disabled", "", Action.of("plugin.enable", plugin=plugin, tenant=tenant)
        case _:
            reason, hint, action = f"it is {state}", RETRY_SOON_HINT, None
    return error_class(f"{plugin} does not run: {reason}", hint=hint, action=action, details=details)
