"""The client of one request: whether it is still there, and what to do when it goes."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from starlette.types import Scope


class ClientConnection:
    """Whoever waits for an answer. Its connection says when it `is_gone`; whoever answers says what happens then."""

    __slots__ = ("_gone", "_hung_up")

    def __init__(self) -> None:
        self._gone = False
        self._hung_up: Callable[[], object] | None = None

    def mark_disconnected(self) -> None:
        """It has hung up."""
        self._gone = True
        if self._hung_up is not None:
            self._hung_up()

    def on_disconnect(self, hung_up: Callable[[], object]) -> ClientConnection:
        """While the block runs, a client that hangs up has this called."""
        self._hung_up = hung_up
        return self

    def __enter__(self) -> None:
        if self._gone and self._hung_up is not None:
            self._hung_up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hung_up = None


def client_connection(scope: Scope) -> ClientConnection:
    """The client of this request."""
    state = scope["state"]
    client: ClientConnection | None = state.get("client")
    if client is None:
        client = state["client"] = ClientConnection()
    return client
