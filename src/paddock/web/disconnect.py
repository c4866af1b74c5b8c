"""Client disconnects: whether the client of a request is still connected, and the callback for when it leaves."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from starlette.types import Scope


class ClientConnection:
    """The client that waits for a response.

    The server protocol calls `mark_disconnected`; the handler sets a callback with `on_disconnect`.
    """

    __slots__ = ("_callback", "_disconnected")

    def __init__(self) -> None:
        self._disconnected = False
        self._callback: Callable[[], object] | None = None

    def mark_disconnected(self) -> None:
        """Record that the client has disconnected, and run the callback."""
        self._disconnected = True
        if self._callback is not None:
            self._callback()

    def on_disconnect(self, callback: Callable[[], object]) -> ClientConnection:
        """Call `callback` if the client disconnects while the `with` block runs, or has done so before."""
        self._callback = callback
        return self

    def __enter__(self) -> None:
        if self._disconnected and self._callback is not None:
            self._callback()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._callback = None


def client_connection(scope: Scope) -> ClientConnection:
    """Return the client of this request."""
    state = scope["state"]
    client: ClientConnection | None = state.get("client")
    if client is None:
        client = state["client"] = ClientConnection()
    return client
