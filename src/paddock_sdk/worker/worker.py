"""The worker's protocol: passes the host's requests to the plugin's code, and returns the results.

    worker.describe {}                                → {"callables": {name: {input_schema, output_schema, …}}}
    worker.call     {callable, payload, envelope}     → the result, in the envelope of the plugin's dialect
    worker.action   {callable, action, args, envelope} → the result of an action

All other requests are the ordinary lifecycle of a plugin. How calls share the process is decided by the serving module:
`serve_sequential.py`, `serve_async.py`, or `serve_forked.py` with `forked_call.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from paddock_sdk.answer import Answer
from paddock_sdk.call import ActiveCall, Context, JsonObject
from paddock_sdk.coroutine_runner import Stream, is_result_step
from paddock_sdk.faults import METHOD_NOT_FOUND, InvalidParams, PluginFault
from paddock_sdk.host import Host, declared_services
from paddock_sdk.lifecycle import HandshakeInfo, Lifecycle
from paddock_sdk.log import Log
from paddock_sdk.wire import Wire, split_params
from paddock_sdk.worker.request import Entry, Request
from paddock_sdk.worker.results import is_last_step, step_event
from paddock_sdk.worker.worker_config import WorkerConfig

NAMESPACE = "paddock"
DESCRIBE_METHOD = "worker.describe"
CALL_METHODS = ("worker.call", "worker.action")  # run the plugin's code, and may take long


class Worker:
    """A loaded plugin that serves requests."""

    def __init__(self, config: WorkerConfig, entries: Mapping[str, Entry], log: Log) -> None:
        self._entries = entries
        self._log = log
        native = config.dialect not in ("shu", "kernel")
        self._is_result = is_result_step if native else is_last_step
        self._event_of = step_event
        self._declared = declared_services(config.capabilities)
        self._lifecycle = Lifecycle(lambda: HandshakeInfo(config.name, config.version), log)

    def skip_handshake(self) -> None:
        """Start after the handshake, which the parent process has done."""
        self._lifecycle.phase = "running"

    def accept(self, wire: Wire, message: JsonObject) -> ActiveCall:
        """Register a message as in progress: from here on a call can be cancelled."""
        call = ActiveCall(message.get("id"), None)
        if call.id is not None and message["method"] in CALL_METHODS:
            wire.inbox.calls[call.id] = call
        return call

    async def serve(self, wire: Wire, message: JsonObject, call: ActiveCall) -> None:
        """Handle a message and answer it. Errors are answered, so that the next message can be served."""
        try:
            wire.answer(message, await self._result(wire, message, call))
        except Exception as error:
            wire.fail(message, error)
        finally:
            if call.id is not None:
                wire.inbox.calls.pop(call.id, None)

    async def _result(self, wire: Wire, message: JsonObject, call: ActiveCall) -> Any:
        method: str = message["method"]
        params, context, call.token = split_params(message)
        if self._lifecycle.serves(method):
            result = self._lifecycle.answer(method, params)
            wire.inbox.open = self._lifecycle.phase == "running"
            return result
        if method == DESCRIBE_METHOD:
            return {"callables": {name: await entry.describe() for name, entry in self._entries.items()}}
        if method not in CALL_METHODS:
            raise PluginFault(f"there is no method {method[:128]!r}", code=METHOD_NOT_FOUND)
        entry = self._entries.get(str(params.get("callable")))
        if entry is None:
            raise PluginFault(f"there is no callable {str(params.get('callable'))[:128]!r}", code=METHOD_NOT_FOUND)
        if method == "worker.call":
            return await entry.call(self._request(wire, call, context, params, "payload"))
        action = params.get("action")
        if not isinstance(action, str):
            raise InvalidParams("action must be text")
        return await entry.act(action, self._request(wire, call, context, params, "args"))

    def _request(self, wire: Wire, call: ActiveCall, context: Context, params: JsonObject, payload_key: str) -> Request:
        def send_request(method: str, params: JsonObject, **options: Any) -> Answer[Any]:
            return wire.ask(method, params, call, **options)

        def send_event(event: JsonObject) -> None:
            wire.event(call, event)

        return Request(
            _object_param(params, payload_key),
            _object_param(params, "envelope"),
            context,
            Host(send_request, self._declared, self._log, NAMESPACE, {"request_id": context.request_id}),
            Stream(send_event, lambda: wire.poll_cancelled(call), self._is_result, self._event_of),
        )


def _object_param(params: JsonObject, name: str) -> JsonObject:
    value: Any = params.get(name) or {}
    if not isinstance(value, dict):
        raise InvalidParams(f"{name} must be an object")
    return cast("JsonObject", value)
