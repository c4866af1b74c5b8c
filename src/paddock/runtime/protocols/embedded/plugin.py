"""The plugin's end of the wire, played in the host's own process for the functions of an application."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread

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
CALL_PARAMETER = "call"  # a parameter of this name is given the call itself


@dataclass(frozen=True, slots=True)
class EmbeddedCall:
    """What a function may know of the call that it serves: who makes it, and how to say how far it is."""

    context: Mapping[str, Any]
    tell: EmitEvent

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever waits how far it is; a call that moves on is given more time."""
        told = {"progress": done, "total": total, "message": message}
        self.tell({"type": "progress", **{name: value for name, value in told.items() if value is not None}})


class ArgumentsMismatch(Exception):
    """A function does not take the parameters that it was given."""


class EmbeddedFunction:
    """A function with its signature looked at once.

    It gets its parameters by name. `async def` runs on the event loop, anything else on a thread of its own. What an
    async generator yields goes out as it comes; the last thing it yields is the result.

    Args:
        name: What whoever calls it knows it by.
        function: The function.
    """

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function
        try:
            self._signature = inspect.signature(function)
        except ValueError:  # some that are written in C have none that can be known
            self._signature = None
        self._wants_call = self._signature is not None and CALL_PARAMETER in self._signature.parameters
        self._streams = inspect.isasyncgenfunction(function)
        self._waits = inspect.iscoroutinefunction(function)

    async def __call__(self, params: Mapping[str, Any], call: EmbeddedCall, threads: CapacityLimiter) -> Any:
        """The result; one that needs a thread takes it of these.

        Raises:
            Unfit: the function does not take these parameters.
            Exception: whatever it raises.
        """
        given = {**params, CALL_PARAMETER: call} if self._wants_call else dict(params)
        if self._signature is not None:
            try:
                self._signature.bind(**given)
            except TypeError as error:
                raise ArgumentsMismatch(f"{self._name} does not take these parameters: {error}") from None
        if self._streams:
            return await _last_item(self._function(**given), call.tell)
        if self._waits:
            return await self._function(**given)
        return await to_thread.run_sync(lambda: self._function(**given), abandon_on_cancel=True, limiter=threads)


async def _last_item(steps: AsyncIterator[Any], tell: EmitEvent) -> Any:
    """What a stream ends with; everything before it is told."""
    nothing = object()
    last: Any = nothing
    async for step in steps:
        if last is not nothing:
            tell({"type": "data", "data": last})
        last = step
    return None if last is nothing else last


MAX_CONCURRENT_CALLS = 64


class EmbeddedPlugin:
    """Serves the calls of one life; see `PeerOwner`."""

    def __init__(self, manifest: Manifest, functions: Mapping[str, EmbeddedFunction]) -> None:
        self._manifest = manifest
        self._served: dict[str, CallableSpec] = {
            method_names.call_method(manifest, spec): spec for spec in manifest.callables if spec.name in functions
        }
        self._functions = functions
        # Of this life alone: threads cannot be ended, and those that hang must keep neither the host nor the next one
        # waiting.
        self._threads = anyio.CapacityLimiter(MAX_CONCURRENT_CALLS)
        self._running: dict[MessageId, asyncio.Task[Any]] = {}
        self.on_shutdown: Callable[[], None] = lambda: None  # told when the host says goodbye
        self._loop = asyncio.get_running_loop()
        self.peer = JsonRpcPeer(self, max_serving=MAX_CONCURRENT_CALLS)

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
            if task.cancelled():  # by whoever waits for it, and not we ourselves
                raise RpcError(INTERNAL_ERROR, "cancelled") from None
            task.cancel()
            raise
        except ArgumentsMismatch as error:
            raise RpcError(INVALID_PARAMS, printable(str(error), 500), {NO_EFFECT: True}) from error
        except NoEffect as error:
            told = to_rpc_error(error)
            raise RpcError(told.code, told.message, {**told.data, NO_EFFECT: True}) from error
        except PaddockError:
            raise  # meant for whoever called
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
            self.on_shutdown()

    def _handshake_reply(self) -> dict[str, Any]:
        return {
            "name": self._manifest.name,
            "version": self._manifest.version,
            "api_version": method_names.API_VERSION,
            "methods": [method for method, spec in self._served.items() if method == spec.name],
            "features": [method_names.CANCEL, method_names.EVENTS],
        }

    def _send_event(self, request_id: MessageId, event: Mapping[str, Any]) -> None:
        """Send an event; from whichever thread, since functions run on threads of their own."""
        told = {"id": request_id, "event": dict(event)}
        self._loop.call_soon_threadsafe(self._notify, told)

    def _notify(self, told: dict[str, Any]) -> None:
        with contextlib.suppress(PeerLost, RpcError):  # nobody listens any more
            self.peer.notify(method_names.event_method(self._manifest), told)

    # The host speaks the protocol as it should: there is nothing to hear of.

    def noise(self, line: bytes) -> None: ...

    def violated(self, kind: str, detail: str) -> None: ...

    def stalled(self) -> None: ...

    def lost(self, reason: str) -> None: ...
