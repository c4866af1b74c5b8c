"""The plugin's end of the connection to the host: requests, notifications and responses in both directions."""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, cast

from paddock_sdk.answer import Answer
from paddock_sdk.call import ActiveCall, Context, JsonObject, take_context
from paddock_sdk.faults import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    HostGone,
    HostRefused,
    InvalidParams,
    PluginFault,
)
from paddock_sdk.framing import Lines, MessageTooLong
from paddock_sdk.inbox import AnswerReceiver, Inbox
from paddock_sdk.log import Log

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


# Errors about our own requests are not the caller's fault.
REQUEST_ERROR_CODES = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, InvalidParams.code)


class Wire:
    """The connection to the host.

    Args:
        lines: Sends and receives messages.
        log: The destination of full error reports of handlers.
        namespace: The prefix of the host's own methods.
    """

    def __init__(self, lines: Lines, log: Log, namespace: str) -> None:
        self.lines = lines
        self.log = log
        self.namespace = namespace
        self.inbox = Inbox(lines, log, f"{namespace}.cancel")
        self.loop: AbstractEventLoop | None = None  # reads the host's messages, if there is one
        self._event_method = f"{namespace}.event"
        self._last_id = 0

    def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        call: ActiveCall | None,
        *,
        convert: Callable[[Any], Any] | None = None,
        undeclared: bool = False,
    ) -> Answer[Any]:
        """Send a request, on behalf of a call if there is one.

        Raises:
            TypeError, ValueError: it cannot be written as JSON; nothing was sent.
            HostGone: the host no longer reads.
        """
        params_with_token = {**params, "_call": call.token} if call is not None and call.token is not None else params
        answer = Answer[Any](self.inbox.read, call, self.loop, convert=convert, undeclared=undeclared)
        self.forward_request({"jsonrpc": "2.0", "method": method, "params": params_with_token}, answer)
        return answer

    def forward_request(self, request: JsonObject, receiver: AnswerReceiver) -> None:
        """Send a request under an id of our own; its response goes to the receiver."""
        self._last_id += 1
        self.lines.write({**request, "id": self._last_id})
        self.inbox.expect(self._last_id, receiver)

    def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        self.lines.write({"jsonrpc": "2.0", "method": method, "params": params})

    def event(self, call: ActiveCall, event: JsonObject) -> None:
        """Send the caller of this call an event before the result; dropped if the caller does not wait."""
        if call.id is not None:
            self.notify(self._event_method, {"id": call.id, "event": event})

    def cancelled(self, call: ActiveCall | None) -> bool:
        """Whether a call was cancelled, after reading what has arrived. Pings are answered on the way."""
        self.inbox.poll()
        return call is not None and call.cancelled

    async def poll_cancelled(self, call: ActiveCall) -> bool:
        """Whether a call was cancelled, from a coroutine: an event loop gets its turn and reads by itself."""
        if self.loop is None:
            self.inbox.poll()
        else:
            await _yield_to_loop()
        return call.cancelled

    def answer(self, message: JsonObject, result: Any) -> None:
        """Answer a request; a result that cannot be sent is answered as a failure of the handler."""
        request_id = message.get("id")
        if request_id is None:
            return
        try:
            self.lines.answer(request_id, result)
        except (TypeError, ValueError, RecursionError) as error:
            self.lines.fail(request_id, self.fault_of(message["method"], error))

    def fail(self, message: JsonObject, error: Exception) -> None:
        """Answer a request with an exception of the handler."""
        if isinstance(error, HostGone):
            raise error
        fault = self.fault_of(message["method"], error)
        if (request_id := message.get("id")) is not None:
            self.lines.fail(request_id, fault)

    def fault_of(self, method: str, error: Exception) -> PluginFault:
        """Return the error for the caller. Details of a handler's bug go only to the plugin's log."""
        if isinstance(error, HostRefused) and error.error_code in REQUEST_ERROR_CODES:
            return PluginFault(f"the host refused: {error.message}", error.data)
        if isinstance(error, PluginFault):
            return error
        if isinstance(error, MessageTooLong):
            self.log.error("a result is too long", method=method)
            return PluginFault(str(error), code=INTERNAL_ERROR)
        import traceback  # late: only a failing plugin pays for it

        self.log.error("a handler failed", method=method, traceback="".join(traceback.format_exception(error)))
        return PluginFault(f"the plugin failed ({type(error).__name__})", code=INTERNAL_ERROR)


@types.coroutine
def _yield_to_loop() -> Generator[None, None, None]:
    """Let the event loop run other tasks once."""
    yield


def split_params(message: JsonObject) -> tuple[JsonObject, Context, str | None]:
    """Return the parameters of a request, and separately the context and call token that the host added.

    Raises:
        InvalidParams: they are not an object.
    """
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object")
    handler_params = cast("JsonObject", params)
    context, token = take_context(handler_params)
    return handler_params, context, token
