"""An answer of the host that may not be there yet.

The question is sent when it is asked. `await answer` gives the result in async code, `answer.wait()` in any other;
until then the plugin may ask more, and a question whose answer nobody takes was still asked.
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
    """What the host answers to one question.

    Args:
        read: Takes in more of what the host says; waits for it.
        call: The call on whose behalf it was asked.
        loop: The event loop that takes in what the host says, where there is one.
        convert: Makes the value out of the answer's result.
        undeclared: The plugin knows that it was not given what it asks for.
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
        """The host has answered."""
        self._message = message
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def wait(self) -> T:
        """The result; blocks until it is there.

        Raises:
            HostRefused: the host answered with an error; CapabilityDenied where the plugin may not have it.
            HostGone: it closed the pipe.
        """
        while self._message is None:
            self._read()
        result = result_of(self._message, undeclared=self._undeclared)
        return cast("T", result) if self._convert is None else self._convert(result)

    def __await__(self) -> Generator[Any, None, T]:
        if self._message is None and self._loop is not None:
            self._future = self._loop.create_future()
            yield from self._future
        # Without a loop there is nothing else that this process could do meanwhile: it waits right here.
        value = self.wait()
        if self._call is not None and self._call.cancelled:
            raise Cancelled
        return value
