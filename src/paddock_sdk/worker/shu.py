"""Shu plugins: a class with `execute(params, context, host)`, instantiated once and called often.

`execute` may be sync or async. One that yields, or returns an async iterator, streams: each step becomes an event as it
comes, and the last step is the result if it has a result's status or the type `result`. A sync generator may also
return its result.
"""

from __future__ import annotations

from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.coroutine_runner import resolve_result
from paddock_sdk.faults import METHOD_NOT_FOUND, PluginFault
from paddock_sdk.worker.entry_point import LoadError
from paddock_sdk.worker.request import Request, await_if_needed, positional_parameters
from paddock_sdk.worker.results import action_result, shu_result


class ShuEntry:
    """One class of a Shu plugin.

    Raises:
        LoadError: it has no `execute`.
    """

    def __init__(self, target: str, target_object: Any) -> None:
        self._plugin: Any = target_object() if isinstance(target_object, type) else target_object
        execute = getattr(self._plugin, "execute", None)
        if not callable(execute):
            raise LoadError(f"the entry point {target} has no execute(params, context, host)")
        self._takes_host = (
            len(positional_parameters(execute)) != 2
        )  # the older form is execute(parameters, user_context)

    async def describe(self) -> JsonObject:
        permissions = await self._read_declared("requires_permission")
        actions = await self._read_declared("list_actions")
        return {
            "input_schema": await self._read_declared("get_schema"),
            "output_schema": await self._read_declared("get_output_schema"),
            "permissions": [permissions] if isinstance(permissions, str) else list(permissions or []),
            "actions": list(actions or []),
        }

    async def call(self, request: Request) -> JsonObject:
        arguments = (request.payload, request.envelope, request.host) if self._takes_host else request[:2]
        result = await resolve_result(self._plugin.execute(*arguments), request.stream)
        return shu_result(result, debug=wants_diagnostics(request))

    async def act(self, action: str, request: Request) -> JsonObject:
        perform = getattr(self._plugin, "perform_action", None)
        if not callable(perform):
            raise PluginFault("this plugin has no actions", code=METHOD_NOT_FOUND)
        value = perform(action, request.payload, request.envelope, request.host)
        return action_result(await resolve_result(value, request.stream), debug=wants_diagnostics(request))

    async def _read_declared(self, method: str) -> Any:
        declared = getattr(self._plugin, method, None)
        return await await_if_needed(declared()) if callable(declared) else None


def wants_diagnostics(request: Request) -> bool:
    return request.envelope.get("debug") is True or request.payload.get("debug") is True
