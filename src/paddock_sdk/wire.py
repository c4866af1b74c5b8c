"""One end of the wire to the host: what is asked, told and answered, in both directions."""

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


# What the host finds wrong with a question of ours is no fault of whoever called us.
REQUEST_ERROR_CODES = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, InvalidParams.code)


class Wire:
    """The host's messages in, ours out.

    Args:
        lines: Where the messages go.
        log: Where mistakes of handlers are told in full.
        namespace: How the host's own methods begin.
    """

    def __init__(self, lines: Lines, log: Log, namespace: str) -> None:
        self.lines = lines
        self.log = log
        self.namespace = namespace
        self.inbox = Inbox(lines, log, f"{namespace}.cancel")
        self.loop: AbstractEventLoop | None = None  # takes in what the host says, where there is one
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
        """Send a question, on behalf of a call where there is one.

        Raises:
            TypeError, ValueError: it cannot be written as JSON; nothing was sent.
            HostGone: nobody reads it.
        """
        named = {**params, "_call": call.token} if call is not None and call.token is not None else params
        answer = Answer[Any](self.inbox.read, call, self.loop, convert=convert, undeclared=undeclared)
        self.forward_request({"jsonrpc": "2.0", "method": method, "params": named}, answer)
        return answer

    def forward_request(self, question: JsonObject, asker: AnswerReceiver) -> None:
        """Send a question under an id of our own; its answer goes to the asker."""
        self._last_id += 1
        self.lines.write({**question, "id": self._last_id})
        self.inbox.expect(self._last_id, asker)

    def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        self.lines.write({"jsonrpc": "2.0", "method": method, "params": params})

    def event(self, call: ActiveCall, event: JsonObject) -> None:
        """Tell whoever waits for this call something before its result; nobody may."""
        if call.id is not None:
            self.notify(self._event_method, {"id": call.id, "event": event})

    def cancelled(self, call: ActiveCall | None) -> bool:
        """Whether a call is no longer wanted, after a look at what has arrived. Pings are answered on the way."""
        self.inbox.poll()
        return call is not None and call.cancelled

    async def poll_cancelled(self, call: ActiveCall) -> bool:
        """The same from a coroutine: an event loop gets its turn, and looks by itself."""
        if self.loop is None:
            self.inbox.poll()
        else:
            await _yield_to_loop()
        return call.cancelled

    def answer(self, message: JsonObject, result: Any) -> None:
        """Answer a request; a result that cannot be sent is answered as the handler's failure."""
        request_id = message.get("id")
        if request_id is None:
            return
        try:
            self.lines.answer(request_id, result)
        except (TypeError, ValueError, RecursionError) as error:
            self.lines.fail(request_id, self.fault_of(message["method"], error))

    def fail(self, message: JsonObject, error: Exception) -> None:
        """Answer a request with what a handler raised."""
        if isinstance(error, HostGone):
            raise error
        fault = self.fault_of(message["method"], error)
        if (request_id := message.get("id")) is not None:
            self.lines.fail(request_id, fault)

    def fault_of(self, method: str, error: Exception) -> PluginFault:
        """What the caller hears of an exception. The details of a handler's mistake are its author's alone."""
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
    """Let the event loop see to the others for a moment."""
    yield


def split_params(message: JsonObject) -> tuple[JsonObject, Context, str | None]:
    """The parameters of a request, without what the host put among them: the context and the call's token.

    Raises:
        InvalidParams: they are no object.
    """
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object")
    own = cast("JsonObject", params)
    context, token = take_context(own)
    return own, context, token
