"""Native plugins without a program of their own: a function, or the tool of a Plugin, imported and called."""

from __future__ import annotations

from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.coroutine_runner import resolve_result
from paddock_sdk.faults import METHOD_NOT_FOUND, PluginFault
from paddock_sdk.handlers import Handler, manifest_entry
from paddock_sdk.stdio import Plugin
from paddock_sdk.worker.entry_point import LoadError
from paddock_sdk.worker.request import Request


class NativeEntry:
    """One function, which takes `(params, context)` or its parameters by name.

    Raises:
        LoadError: it cannot be called.
    """

    def __init__(self, target: str, target_object: Any, name: str) -> None:
        self._name = name
        if isinstance(target_object, Plugin):
            handler = target_object.handlers.tool(name)
            if handler is None:
                raise LoadError(f"the entry point {target} has no tool {name}")
            self._handler = handler
            return
        instance: Any = target_object() if isinstance(target_object, type) else target_object
        function = getattr(instance, "execute", instance)
        if not callable(function):
            raise LoadError(f"the entry point {target} is no function")
        try:
            self._handler = Handler(function)
        except TypeError as error:
            raise LoadError(f"the entry point {target}: {error}") from None

    async def describe(self) -> JsonObject:
        entry = manifest_entry(self._name, self._handler)
        schemas = {key: entry.get(key) for key in ("description", "input_schema", "output_schema")}
        return {**schemas, "permissions": [], "actions": []}

    async def call(self, request: Request) -> Any:
        pending = self._handler.begin(request.payload, request.context, host=request.host)
        return self._handler.finish(await resolve_result(pending, request.stream))

    async def act(self, action: str, request: Request) -> JsonObject:
        del action, request
        raise PluginFault("this plugin has no actions", code=METHOD_NOT_FOUND)
