"""A plugin's error answer as an error of ours, and in words: the one translation from its wire.

What a call that failed has done is known only where the plugin says so. `no_effect` in the details of an error means
that it is certain: nothing.
"""

from __future__ import annotations

from typing import Any, cast

from paddock.core.errors import Busy, CallerError, NotFound, PaddockError, PluginError, Unavailable
from paddock.core.printable import printable
from paddock.plugins.supervision.diagnosis import see_its_log
from paddock.rpc.faults import NO_EFFECT, RpcFault

_LONGEST_MESSAGE = 2_000
_LONGEST_HINT = 400
_ENDED = {"code": Unavailable.code}  # of a worker, when the process that it made for one call is gone
_OF_THE_SDK = "the plugin "  # as in: the plugin failed (ValueError)


def error_of(plugin: str, fault: RpcFault, refusals: frozenset[int] = frozenset()) -> PaddockError:
    """What the caller meets when the plugin answered with this fault. The plugin's words are made safe to show.

    `refusals` are the numbers by which it says, without another word, that it has not begun with the call.
    """
    message = printable(fault.message, _LONGEST_MESSAGE) or "the plugin gave no reason"
    details: dict[str, Any] = {"plugin": plugin, "rpc_code": fault.code}
    if fault.data is not None:
        details["data"] = fault.data
    if fault.code in refusals or _says_so(fault.data):
        details[NO_EFFECT] = True
    hint = _passed_on(plugin, fault.data)
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
        case -32603 if details.get("data") == _ENDED:
            return Unavailable(
                f"{plugin} ended before it answered: {message}", hint=see_its_log(plugin), details={"plugin": plugin}
            )
        case -32603:
            # An exception of its code, mostly: what it says is its author's and in the log, not the caller's.
            told = f"{plugin} {message.removeprefix(_OF_THE_SDK)}" if message.startswith(_OF_THE_SDK) else ""
            return PluginError(told or f"{plugin} failed: {message}", hint=see_its_log(plugin), details=details)
        case _:
            return PluginError(message, hint=hint, details=details)


def _passed_on(plugin: str, data: Any) -> str:
    """What to do about it, where the plugin passes on what the host told it. It could have put in anything, so people
    read whose words these are."""
    hint: Any = cast("dict[str, Any]", data).get("hint") if isinstance(data, dict) else None
    return f"{plugin} passes on: {printable(hint, _LONGEST_HINT)}" if isinstance(hint, str) and hint else ""


def did_nothing(error: PaddockError) -> bool:
    """Whether it is certain that the call which failed so did nothing."""
    return error.details.get(NO_EFFECT) is True


def _says_so(data: Any) -> bool:
    return isinstance(data, dict) and cast("dict[str, Any]", data).get(NO_EFFECT) is True


def fault_words(error: Exception) -> str:
    """A failed request of the host's own, in a few words."""
    if isinstance(error, RpcFault):
        return f"error {error.code}: {printable(error.message, 200)}"
    if isinstance(error, PaddockError):
        return error.message
    return "no answer in time" if isinstance(error, TimeoutError) else printable(str(error), 200)
