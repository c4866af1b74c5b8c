"""Kernel plugins: a function, or a class with one method, that takes the whole call as one object.

    operator, tool, adapter   {"payload": …, "auth_context": …, "trace_context": …, "idempotency_key": …, …}
    agent                     the payload (`intent`, `context`, …) with the envelope's fields beside it

A second parameter named `host` receives the host's services. A method named `map_external_event_to_intent` receives
only the event. InvalidParams and ScopeMissing are answered as VALIDATION_ERROR and PERMISSION_DENIED; any other
exception is a failure of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.coroutine_runner import resolve_result
from paddock_sdk.faults import METHOD_NOT_FOUND, InvalidParams, PluginFault, ScopeMissing
from paddock_sdk.jsonable import fields_of
from paddock_sdk.scopes import checks_scopes
from paddock_sdk.worker.entry_point import LoadError
from paddock_sdk.worker.request import Request, positional_parameters
from paddock_sdk.worker.results import kernel_failure, kernel_result

EVENT_MAPPER = "map_external_event_to_intent"
METHODS = (EVENT_MAPPER, "execute", "run", "__call__")
# An agent's payload is merged into the call; these fields must come from the host only.
HOST_FIELDS = ("auth_context", "trace_context", "idempotency_key")


class KernelEntry:
    """One function or class of a Kernel plugin.

    Raises:
        LoadError: it cannot be called.
    """

    def __init__(self, target: str, target_object: Any, kind: str) -> None:
        self._kind = kind
        self._function = _find_function(target, target_object)
        self._takes_event = getattr(self._function, "__name__", "") == EVENT_MAPPER
        self._takes_host = [name.strip("_") for name in positional_parameters(self._function)][1:2] == ["host"]
        if self._takes_event and checks_scopes(self._function):
            raise LoadError(f"{target}: an event from outside says nothing about scopes; take the whole call instead")

    async def describe(self) -> JsonObject:
        return {"input_schema": None, "output_schema": None, "permissions": [], "actions": []}

    async def call(self, request: Request) -> Any:
        arguments = [self._call_object(request)] + ([request.host] if self._takes_host else [])
        try:
            result = await resolve_result(self._function(*arguments), request.stream)
        except InvalidParams as fault:
            return self._error_result(fault, "VALIDATION_ERROR", "errors")
        except ScopeMissing as fault:
            return self._error_result(fault, "PERMISSION_DENIED", "missing_scopes")
        return kernel_result(result, self._kind)

    async def act(self, action: str, request: Request) -> JsonObject:
        del action, request
        raise PluginFault("this plugin has no actions", code=METHOD_NOT_FOUND)

    def _call_object(self, request: Request) -> JsonObject:
        if self._takes_event:
            return request.payload
        if self._kind == "agent":
            payload = {name: value for name, value in request.payload.items() if name not in HOST_FIELDS}
            return {**payload, **{name: value for name, value in request.envelope.items() if value is not None}}
        return {**request.envelope, "payload": request.payload}

    def _error_result(self, fault: PluginFault, code: str, key: str) -> JsonObject:
        if self._kind not in ("operator", "tool"):
            raise fault
        details = fields_of(fault.data) or {}
        return kernel_failure(self._kind, code, fault.message, details.get(key, []))


def _find_function(target: str, target_object: Any) -> Callable[..., Any]:
    if not isinstance(target_object, type) and hasattr(target_object, "__code__"):
        return target_object
    instance: Any = target_object() if isinstance(target_object, type) else target_object
    for name in METHODS:
        if callable(getattr(instance, name, None)):
            return getattr(instance, name)
    raise LoadError(f"the entry point {target} is no function, and has no method {', '.join(METHODS)}")
