"""One call as the worker hands it to the code of a plugin."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from paddock_sdk.call import Context, JsonObject
from paddock_sdk.coroutine_runner import Stream, require_event_loop
from paddock_sdk.host import Host


class Request(NamedTuple):
    """What is asked, by whom, and what the plugin may use for it.

    Attributes:
        payload: The caller's own words.
        envelope: What the host says about the call.
        context: The same for a plugin of ours.
        host: The host's services, asked on behalf of this call.
        stream: Where steps go.
    """

    payload: JsonObject
    envelope: JsonObject
    context: Context
    host: Host
    stream: Stream


class Entry(Protocol):
    """One callable of a plugin, in its own dialect."""

    async def describe(self) -> JsonObject:
        """Its schemas, permissions and actions."""
        ...

    async def call(self, request: Request) -> Any:
        """The result envelope.

        Raises:
            PluginFault: the plugin refuses, or breaks its contract.
        """
        ...

    async def act(self, action: str, request: Request) -> JsonObject:
        """The result of an action.

        Raises:
            PluginFault: there are none, or it refuses.
        """
        ...


async def await_if_needed(value: Any) -> Any:
    """A value that may have to be awaited first."""
    if not hasattr(value, "__await__"):
        return value
    await require_event_loop()
    return await value


def positional_parameters(function: Any) -> list[str]:
    """The names of the positional parameters that a function is called with."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    names = list(code.co_varnames[: code.co_argcount])
    return names[1:] if names[:1] == ["self"] else names
