"""The plugin's end of an embedded connection: it serves calls with functions of the application."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from msgspec import Struct

from paddock.core.errors import NoEffect, PaddockError
from paddock.core.printable import printable
from paddock.manifest.model import CallableSpec, Manifest
from paddock.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NO_EFFECT,
    PeerLost,
    RpcError,
    to_rpc_error,
)
from paddock.rpc.message import MessageId
from paddock.rpc.peer import InboundRequest, JsonRpcPeer
from paddock.runtime.protocols.native import method_names

Function: TypeAlias = Callable[..., Any]
EmitEvent: TypeAlias = Callable[[Mapping[str, Any]], None]
CALL_PARAMETER = "call"  # a parameter of this name receives the `EmbeddedCall`


class EmbeddedCall(Struct, frozen=True):
    """The call as a function sees it: its context, and how to report progress."""

    context: Mapping[str, Any]
    tell: EmitEvent

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller; a call that makes progress gets more time."""
        fields = {"progress": done, "total": total, "message": message}
        self.tell({"type": "progress", **{name: value for name, value in fields.items() if value is not None}})


class ArgumentsMismatch(Exception):
    """The function does not accept the parameters of the call."""


class EmbeddedFunction:
    """A function of the application, with its signature inspected once.

    It gets its parameters by name. `async def` runs on the event loop, anything else on a thread of its own. Items that
    an async generator yields are sent as events; the last one is the result.

    Args:
        name: Its name for callers.
        function: The function.
    """

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function
        try:
            self._signature = inspect.signature(function)
        except ValueError:  # some functions written in C have no signature
            self._signature = None
        self._wants_call = self._signature is not None and CALL_PARAMETER in self._signature.parameters
        self._streams = inspect.isasyncgenfunction(function)
        self._is_coroutine = inspect.iscoroutinefunction(function)

    async def __call__(self, params: Mapping[str, Any], call: EmbeddedCall, threads: CapacityLimiter) -> Any:
        """Call the function and return its result; a synchronous one runs on one of these threads.

        Raises:
            ArgumentsMismatch: the function does not accept these parameters.
            Exception: whatever it raises.
        """
        arguments = {**params, CALL_PARAMETER: call} if self._wants_call else dict(params)
        if self._signature is not None:
            try:
                self._signature.bind(**arguments)
            except TypeError as error:
                raise ArgumentsMismatch(f"{self._name} does not take these parameters: {error}") from None
        if self._streams:
            return await _last_item(self._function(**arguments), call.tell)
        if self._is_coroutine:
            return await self._function(**arguments)
        return await to_thread.run_sync(lambda: self._function(**arguments), abandon_on_cancel=True, limiter=threads)


async def _last_item(items: AsyncIterator[Any], emit: EmitEvent) -> Any:
    """Return the last item of a stream and emit all earlier ones as events."""
    missing = object()
    last: Any = missing
    async for item in items:
        if last is not missing:
            emit({"type": "data", "data": last})
        last = item
    return None if last is missing else last


MAX_EMBEDDED_CALLS = 64


class EmbeddedPlugin:
    """Serves the calls of one run; see `PeerHandler`. `on_shutdown` is called when the host requests the shutdown."""

    def __init__(
        self, manifest: Manifest, functions: Mapping[str, EmbeddedFunction], *, on_shutdown: Callable[[], None]
    ) -> None:
        self._manifest = manifest
        self._served: dict[str, CallableSpec] = {
            method_names.call_method(manifest, spec): spec for spec in manifest.callables if spec.name in functions
        }
        self._functions = functions
        # Per run: threads cannot be killed, and hanging ones must block neither the host nor the next run.
        self._threads = anyio.CapacityLimiter(MAX_EMBEDDED_CALLS)
        self._running: dict[MessageId, asyncio.Task[Any]] = {}
        self._on_shutdown = on_shutdown
        self._loop = asyncio.get_running_loop()
        self.peer = JsonRpcPeer(self, max_serving=MAX_EMBEDDED_CALLS)

    async def serve(self, method: str, params: dict[str, Any], asked: InboundRequest) -> Any:
        request_id = asked.id
        if method == method_names.INITIALIZE:
            return self._handshake_reply()
        if method in (
            method_names.PING,
            method_names.CONFIG_UPDATE,
            method_names.PROJECT_ACTIVATED,
            method_names.PROJECT_DEACTIVATED,
        ):
            return {"status": "ok"}
        spec = self._served.get(method)
        if spec is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {printable(method, 128)}", {NO_EFFECT: True})
        context: Mapping[str, Any] = params.pop("_context", {})
        params.pop("_call", None)
        call = EmbeddedCall(context, lambda event: self._send_event(request_id, event))
        task = asyncio.ensure_future(self._functions[spec.name](params, call, self._threads))
        self._running[request_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled():  # cancelled by the caller, not by us
                raise RpcError(INTERNAL_ERROR, "cancelled") from None
            task.cancel()
            raise
        except ArgumentsMismatch as error:
            raise RpcError(INVALID_PARAMS, printable(str(error), 500), {NO_EFFECT: True}) from error
        except NoEffect as error:
            rpc_error = to_rpc_error(error)
            raise RpcError(rpc_error.code, rpc_error.message, {**rpc_error.data, NO_EFFECT: True}) from error
        except PaddockError:
            raise  # meant for the caller
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self._manifest.name} {spec.name} failed", "exception": error}
            )
            raise RpcError(INTERNAL_ERROR, f"the function failed ({type(error).__name__})") from error
        finally:
            self._running.pop(request_id, None)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        if method == method_names.cancel_method(self._manifest):
            task = self._running.get(params.get("id", ""))
            if task is not None:
                task.cancel()
        elif method == method_names.SHUTDOWN:
            self._on_shutdown()

    def _handshake_reply(self) -> dict[str, Any]:
        return {
            "name": self._manifest.name,
            "version": self._manifest.version,
            "api_version": method_names.API_VERSION,
            "methods": [method for method, spec in self._served.items() if method == spec.name],
            "features": [method_names.CANCEL, method_names.EVENTS],
        }

    def _send_event(self, request_id: MessageId, event: Mapping[str, Any]) -> None:
        """Send an event from any thread, since functions run on threads of their own."""
        params = {"id": request_id, "event": dict(event)}
        self._loop.call_soon_threadsafe(self._notify, params)

    def _notify(self, params: dict[str, Any]) -> None:
        with contextlib.suppress(PeerLost, RpcError):  # the connection is gone
            self.peer.notify(method_names.event_method(self._manifest), params)

    # The host keeps the protocol, so these never happen.

    def noise(self, line: bytes) -> None: ...

    def violated(self, kind: str, detail: str) -> None: ...

    def stalled(self) -> None: ...

    def lost(self, reason: str) -> None: ...
