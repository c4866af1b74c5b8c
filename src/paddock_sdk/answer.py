"""A pending response of the host.

The request is sent immediately. `await answer` returns the result in async code, `answer.wait()` elsewhere. Until then
the plugin may send more requests. A request takes effect even if its answer is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from paddock_sdk.call import ActiveCall, JsonObject
from paddock_sdk.faults import Cancelled
from paddock_sdk.message import result_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

T = TypeVar("T")


class Answer(Generic[T]):
    """The host's response to one request.

    Args:
        read: Reads more messages from the host; blocks until there are some.
        call: The call on whose behalf the request was sent.
        loop: The event loop that reads the host's messages, if there is one.
        convert: Converts the result of the response into the value.
        undeclared: Whether the plugin knows that it was not granted this service.
    """

    def __init__(
        self,
        read: Callable[[], None],
        call: ActiveCall | None,
        loop: AbstractEventLoop | None,
        *,
        convert: Callable[[Any], T] | None = None,
        undeclared: bool = False,
    ) -> None:
        self._read = read
        self._call = call
        self._loop = loop
        self._convert = convert
        self._undeclared = undeclared
        self._message: JsonObject | None = None
        self._future: Future[None] | None = None

    def arrived(self, message: JsonObject) -> None:
        """Deliver the host's response message."""
        self._message = message
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def wait(self) -> T:
        """Return the result; blocks until it has arrived.

        Raises:
            HostRefused: the host responded with an error; CapabilityDenied if the plugin lacks the capability.
            HostGone: the host closed the pipe.
        """
        while self._message is None:
            self._read()
        result = result_of(self._message, undeclared=self._undeclared)
        return cast("T", result) if self._convert is None else self._convert(result)

    def __await__(self) -> Generator[Any, None, T]:
        if self._message is None and self._loop is not None:
            self._future = self._loop.create_future()
            yield from self._future
        # Without an event loop this process has nothing else to do, so it blocks.
        value = self.wait()
        if self._call is not None and self._call.cancelled:
            raise Cancelled
        return value
