"""The plugin's end of the wire, played in the host's own process for the functions of an application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from paddock.core.errors import NoEffect, PaddockError
from paddock.core.printable import printable
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.runtimes.embedded.function import Embedded, EmbeddedCall, Unfit
from paddock.plugins.runtimes.native import names
from paddock.rpc.faults import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NO_EFFECT, PeerLost, RpcFault, fault_of
from paddock.rpc.message import MessageId
from paddock.rpc.peer import Asked, Peer

MOST_AT_ONCE = 64


class EmbeddedPlugin:
    """Serves the calls of one life; see `PeerOwner`."""

    def __init__(self, manifest: Manifest, functions: Mapping[str, Embedded]) -> None:
        self._manifest = manifest
        self._served: dict[str, CallableSpec] = {
            names.method_of(manifest, spec): spec for spec in manifest.callables if spec.name in functions
        }
        self._functions = functions
        # Of this life alone: threads cannot be ended, and those that hang must keep neither the host nor the next one
        # waiting.
        self._threads = anyio.CapacityLimiter(MOST_AT_ONCE)
        self._running: dict[MessageId, asyncio.Task[Any]] = {}
        self.on_end: Callable[[], None] = lambda: None  # told when the host says goodbye
        self._loop = asyncio.get_running_loop()
        self.peer = Peer(self, max_serving=MOST_AT_ONCE)

    async def serve(self, method: str, params: dict[str, Any], asked: Asked) -> Any:
        request_id = asked.id
        if method == names.INITIALIZE:
            return self._introduction()
        if method in (names.PING, names.CONFIG_UPDATE, names.PROJECT_ACTIVATED, names.PROJECT_DEACTIVATED):
            return {"status": "ok"}
        spec = self._served.get(method)
        if spec is None:
            raise RpcFault(METHOD_NOT_FOUND, f"there is no method {printable(method, 128)}", {NO_EFFECT: True})
        context: Mapping[str, Any] = params.pop("_context", {})
        params.pop("_call", None)
        call = EmbeddedCall(context, lambda event: self._tell(request_id, event))
        task = asyncio.ensure_future(self._functions[spec.name](params, call, self._threads))
        self._running[request_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled():  # by whoever waits for it, and not we ourselves
                raise RpcFault(INTERNAL_ERROR, "cancelled") from None
            task.cancel()
            raise
        except Unfit as error:
            raise RpcFault(INVALID_PARAMS, printable(str(error), 500), {NO_EFFECT: True}) from error
        except NoEffect as error:
            told = fault_of(error)
            raise RpcFault(told.code, told.message, {**told.data, NO_EFFECT: True}) from error
        except PaddockError:
            raise  # meant for whoever called
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self._manifest.name} {spec.name} failed", "exception": error}
            )
            raise RpcFault(INTERNAL_ERROR, f"the function failed ({type(error).__name__})") from error
        finally:
            self._running.pop(request_id, None)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        if method == names.cancel_method(self._manifest):
            task = self._running.get(params.get("id", ""))
            if task is not None:
                task.cancel()
        elif method == names.SHUTDOWN:
            self.on_end()

    def _introduction(self) -> dict[str, Any]:
        return {
            "name": self._manifest.name,
            "version": self._manifest.version,
            "api_version": names.API_VERSION,
            "methods": [method for method, spec in self._served.items() if method == spec.name],
            "features": [names.CANCEL, names.EVENTS],
        }

    def _tell(self, request_id: MessageId, event: Mapping[str, Any]) -> None:
        """Send an event; from whichever thread, since functions run on threads of their own."""
        told = {"id": request_id, "event": dict(event)}
        self._loop.call_soon_threadsafe(self._notify, told)

    def _notify(self, told: dict[str, Any]) -> None:
        with contextlib.suppress(PeerLost, RpcFault):  # nobody listens any more
            self.peer.notify(names.event_method(self._manifest), told)

    # The host speaks the protocol as it should: there is nothing to hear of.

    def noise(self, line: bytes) -> None: ...

    def violated(self, kind: str, detail: str) -> None: ...

    def stalled(self) -> None: ...

    def lost(self, reason: str) -> None: ...
