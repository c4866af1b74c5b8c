"""One function of the application, and how it is called."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from anyio import CapacityLimiter, to_thread

Function: TypeAlias = Callable[..., Any]
Tell: TypeAlias = Callable[[Mapping[str, Any]], None]
CALL = "call"  # a parameter of this name is given the call itself


@dataclass(frozen=True, slots=True)
class EmbeddedCall:
    """What a function may know of the call that it serves: who makes it, and how to say how far it is."""

    context: Mapping[str, Any]
    tell: Tell

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever waits how far it is; a call that moves on is given more time."""
        told = {"progress": done, "total": total, "message": message}
        self.tell({"type": "progress", **{name: value for name, value in told.items() if value is not None}})


class Unfit(Exception):
    """A function does not take the parameters that it was given."""


class Embedded:
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
        self._wants_call = self._signature is not None and CALL in self._signature.parameters
        self._streams = inspect.isasyncgenfunction(function)
        self._waits = inspect.iscoroutinefunction(function)

    async def __call__(self, params: Mapping[str, Any], call: EmbeddedCall, threads: CapacityLimiter) -> Any:
        """The result; one that needs a thread takes it of these.

        Raises:
            Unfit: the function does not take these parameters.
            Exception: whatever it raises.
        """
        given = {**params, CALL: call} if self._wants_call else dict(params)
        if self._signature is not None:
            try:
                self._signature.bind(**given)
            except TypeError as error:
                raise Unfit(f"{self._name} does not take these parameters: {error}") from None
        if self._streams:
            return await _last(self._function(**given), call.tell)
        if self._waits:
            return await self._function(**given)
        return await to_thread.run_sync(lambda: self._function(**given), abandon_on_cancel=True, limiter=threads)


async def _last(steps: AsyncIterator[Any], tell: Tell) -> Any:
    """What a stream ends with; everything before it is told."""
    nothing = object()
    last: Any = nothing
    async for step in steps:
        if last is not nothing:
            tell({"type": "data", "data": last})
        last = step
    return None if last is nothing else last
