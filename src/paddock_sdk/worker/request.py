"""One call as the worker passes it to the plugin's code."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from paddock_sdk.call import Context, JsonObject
from paddock_sdk.coroutine_runner import Stream, require_event_loop
from paddock_sdk.host import Host


class Request(NamedTuple):
    """A call with its caller and the services that the plugin may use.

    Attributes:
        payload: The caller's parameters.
        envelope: The host's data about the call.
        context: The same data for a native plugin.
        host: The host's services, requested on behalf of this call.
        stream: The destination of steps.
    """

    payload: JsonObject
    envelope: JsonObject
    context: Context
    host: Host
    stream: Stream


class Entry(Protocol):
    """One callable of a plugin, in its own dialect."""

    async def describe(self) -> JsonObject:
        """Return its schemas, permissions and actions."""
        ...

    async def call(self, request: Request) -> Any:
        """Return the result envelope.

        Raises:
            PluginFault: the plugin refuses, or violates its contract.
        """
        ...

    async def act(self, action: str, request: Request) -> JsonObject:
        """Return the result of an action.

        Raises:
            PluginFault: there is no such action, or it refuses.
        """
        ...


async def await_if_needed(value: Any) -> Any:
    """Return the value, after awaiting it if it is awaitable."""
    if not hasattr(value, "__await__"):
        return value
    await require_event_loop()
    return await value


def positional_parameters(function: Any) -> list[str]:
    """Return the names of a function's positional parameters, without `self`."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    names = list(code.co_varnames[: code.co_argcount])
    return names[1:] if names[:1] == ["self"] else names
