"""The contract between the client and its transports: one request to the HTTP API, one response."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

T = TypeVar("T")


class ApiRequest(Struct, frozen=True):
    """A request of the local operator.

    Attributes:
        method: As in `GET`.
        target: Path and query, percent-encoded.
        headers: Without line breaks; names as they are sent.
        body: JSON, encoded; None if there is none.
        timeout_s: Limit for the whole exchange; None waits for ever.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    timeout_s: float | None = None


class ApiResponse(Protocol):
    """A response whose status and headers have arrived; its body is read in chunks."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by their names in lower case."""
        ...

    def read_chunk(self) -> bytes:
        """Return the next part of the body; empty at its end.

        Raises:
            TimeoutError: the request's time is over.
            PaddockError: the rest cannot be had.
        """
        ...


class ApiTransport(Protocol):
    """Takes requests to the HTTP API: of a daemon, or in this process."""

    @property
    def has_daemon(self) -> bool:
        """Whether a daemon serves the requests, and so goes on when the command has ended."""
        ...

    def open(self, request: ApiRequest) -> AbstractContextManager[ApiResponse]:
        """Send a request. Leaving the block early is a disconnect, which cancels a call that is waited for.

        Raises:
            TimeoutError: no response came in time.
            PaddockError: the API cannot be reached.
        """
        ...

    def run(self, prompt: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, such as a prompt; calls in progress go on meanwhile."""
        ...
