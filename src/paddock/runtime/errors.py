"""A plugin's error answer as an error of ours, and in words: the one translation from its wire.

What a call that failed has done is known only where the plugin says so. `no_effect` in the details of an error means
that it is certain: nothing.
"""

from __future__ import annotations

from typing import Any, cast

from paddock.core.errors import Busy, CallerError, Failed, NotFound, PaddockError, PluginError, Unavailable
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import upgrade_or_enable_hint
from paddock.rpc.errors import NO_EFFECT, RpcError
from paddock.runtime.diagnosis import Diagnosis, see_log_hint
from paddock.runtime.lifecycle import PluginState

_MAX_MESSAGE_CHARS = 2_000
_MAX_HINT_CHARS = 400
_WORKER_EXITED_DATA = {"code": Unavailable.code}  # of a worker, when the process that it made for one call is gone
_SDK_MESSAGE_PREFIX = "the plugin "  # as in: the plugin failed (ValueError)


def to_paddock_error(plugin: str, fault: RpcError, refusals: frozenset[int] = frozenset()) -> PaddockError:
    """What the caller meets when the plugin answered with this fault. The plugin's words are made safe to show.

    `refusals` are the numbers by which it says, without another word, that it has not begun with the call.
    """
    message = printable(fault.message, _MAX_MESSAGE_CHARS) or "the plugin gave no reason"
    details: dict[str, Any] = {"plugin": plugin, "rpc_code": fault.code}
    if fault.data is not None:
        details["data"] = fault.data
    if fault.code in refusals or _declares_no_effect(fault.data):
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
                f"{plugin} ended before it answered: {message}", hint=see_log_hint(plugin), details={"plugin": plugin}
            )
        case -32603:
            # An exception of its code, mostly: what it says is its author's and in the log, not the caller's.
            told = (
                f"{plugin} {message.removeprefix(_SDK_MESSAGE_PREFIX)}"
                if message.startswith(_SDK_MESSAGE_PREFIX)
                else ""
            )
            return PluginError(told or f"{plugin} failed: {message}", hint=see_log_hint(plugin), details=details)
        case _:
            return PluginError(message, hint=hint, details=details)


def _relayed_hint(plugin: str, data: Any) -> str:
    """What to do about it, where the plugin passes on what the host told it. It could have put in anything, so people
    read whose words these are."""
    hint: Any = cast("dict[str, Any]", data).get("hint") if isinstance(data, dict) else None
    return f"{plugin} passes on: {printable(hint, _MAX_HINT_CHARS)}" if isinstance(hint, str) and hint else ""


def had_no_effect(error: PaddockError) -> bool:
    """Whether it is certain that the call which failed so did nothing."""
    return error.details.get(NO_EFFECT) is True


def _declares_no_effect(data: Any) -> bool:
    return isinstance(data, dict) and cast("dict[str, Any]", data).get(NO_EFFECT) is True


def describe_error(error: Exception) -> str:
    """A failed request of the host's own, in a few words."""
    if isinstance(error, RpcError):
        return f"error {error.code}: {printable(error.message, 200)}"
    if isinstance(error, PaddockError):
        return error.message
    return "no answer in time" if isinstance(error, TimeoutError) else printable(str(error), 200)


RETRY_SOON_HINT = "try again in a moment"


def unavailable_error(
    plugin: str,
    state: PluginState,
    why: Diagnosis,
    error_code: str = "",
    *,
    restarts: bool = True,
    still_starting: bool = False,
) -> Unavailable:
    """What its caller meets.

    Args:
        plugin: Its name.
        state: Where it is.
        why: How its last process ended, where that is why.
        error_code: The same for machines.
        restarts: Whether anybody starts it again by itself: a host that is there for one call does not.
        still_starting: Whether it may still come, later than its caller could wait.
    """
    details = {"plugin": plugin, "state": state.value} | ({"reason_code": error_code} if error_code else {})
    kind = Unavailable
    match state:
        case _ if still_starting:
            words, hint = "it is still starting", RETRY_SOON_HINT
        case PluginState.FAILED:
            kind = Failed
            words, hint = f"it failed: {why.reason}", why.hint or upgrade_or_enable_hint(plugin)
        case PluginState.CRASHED if restarts:
            words = f"it is being restarted: {why.reason}"
            hint = f"{RETRY_SOON_HINT}; {why.hint}" if why.hint else RETRY_SOON_HINT
        case PluginState.CRASHED:
            words, hint = why.reason, why.hint or see_log_hint(plugin)
        case PluginState.DISABLED:
            words, hint = "it is disabled", f"paddock plugin enable {plugin}"
        case _:
            words, hint = f"it is {state}", RETRY_SOON_HINT
    return kind(f"{plugin} does not run: {words}", hint=hint, details=details)
