"""Exceptions: those a handler raises to answer with an error, and those raised when the host refuses.

PluginFault            any error a handler wants to answer with
├── NoEffect           the call failed, and nothing happened
├── InvalidParams      the caller's parameters are wrong
├── ConfigInvalid      a new configuration is not acceptable; the old one stays
├── NotApplicable      the call makes no sense here, e.g. it needs a project and there is none
├── NotInitialized     a call came before the handshake was complete
├── ScopeMissing       the caller lacks a scope that the handler requires
├── Cancelled          the caller no longer wants the result
└── HostRefused        the host answered a request of the plugin with an error
    └── CapabilityDenied   because the plugin does not have that capability
HostGone               the host closed the pipe; the plugin is about to end

A tool with effects may have had them although it failed: the host repeats the call only if the plugin says that nothing
happened. NoEffect says so, and so do InvalidParams, NotApplicable, NotInitialized and ScopeMissing: raise these before
any effect. Every other exception leaves the outcome open.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
CAPABILITY_DENIED = -32001


class PluginFault(Exception):
    """An error response: a message for people, a JSON-RPC code, and data for programs."""

    code: ClassVar[int] = -32000
    no_effect: ClassVar[bool] = False  # whether it states that nothing happened

    def __init__(self, message: str, data: Any = None, *, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.error_code = type(self).code if code is None else code

    def to_error(self) -> dict[str, Any]:
        """Return the `error` member of a response."""
        error: dict[str, Any] = {"code": self.error_code, "message": self.message}
        data = _with_no_effect(self.data) if self.no_effect else self.data
        return error if data is None else {**error, "data": data}


def _with_no_effect(data: Any) -> dict[str, Any]:
    fields = {} if data is None else cast("dict[str, Any]", data) if isinstance(data, dict) else {"data": data}
    return {**fields, "no_effect": True}


class NoEffect(PluginFault):
    """The call failed, and nothing happened: the caller may repeat it under the same idempotency key."""

    no_effect = True


class InvalidParams(PluginFault):
    """The caller's parameters are wrong."""

    code = -32602
    no_effect = True


class ConfigInvalid(PluginFault):
    """A new configuration is not acceptable; the old one stays."""

    code = -32004


class NotApplicable(PluginFault):
    """The call makes no sense in this context."""

    code = -32006
    no_effect = True


class NotInitialized(PluginFault):
    """A call came before the handshake was complete."""

    code = -32002
    no_effect = True


class ScopeMissing(PluginFault):
    """The caller lacks a scope that the handler requires."""

    no_effect = True

    def __init__(self, missing: list[str]) -> None:
        super().__init__(
            f"the caller lacks {', '.join(missing)}", {"code": "PERMISSION_DENIED", "missing_scopes": missing}
        )


class Cancelled(PluginFault):
    """The caller no longer wants the result: clean up, and let this exception propagate."""

    def __init__(self) -> None:
        super().__init__("cancelled")


class HostRefused(PluginFault):
    """The host answered a request of the plugin with an error. If uncaught, the caller gets the same error."""


class CapabilityDenied(HostRefused):
    """The host refused because the plugin lacks the capability. The host records the attempt."""

    code = CAPABILITY_DENIED


class HostGone(Exception):
    """The host closed the pipe; the plugin is about to end."""
