"""The daemon's local socket: bound for its owner alone, served by uvicorn's protocol, gone when the block ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from paddock.core.errors import Conflict, Unreachable
from paddock.web.daemon_address import socket_address
from paddock.web.security.authenticate import peer_credentials
from paddock.web.server.protocol import HttpProtocol

BACKLOG = 512
DRAIN_TIMEOUT_S = 5.0  # seconds for answers under way once nobody new is let in
DEFAULT_RESPONSE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""What browsers are told with every answer. What a page may load is said with the page; see `problems.py`."""
_SOCKET_MODE = 0o600


class UnixSocketProtocol(HttpProtocol):
    """uvicorn's HTTP, which also tells each request which process it came from."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        # What stands here is copied into the state of every request of this connection.
        self.app_state = {**self.app_state, "peer": peer_credentials(transport.get_extra_info("socket"))}


@asynccontextmanager
async def serve_unix_socket(app: ASGIApp, path: Path) -> AsyncGenerator[None, None]:
    """Serve the application on a local socket for as long as the block runs. The place must be `claimed`.

    Raises:
        Unreachable: the socket cannot be made.
    """
    config, state = protocol_config(app, UnixSocketProtocol), protocol_state()

    def protocol() -> UnixSocketProtocol:
        return UnixSocketProtocol(config=config, server_state=state, app_state={})

    with bind_unix_socket(path) as bound_socket:
        server = await asyncio.get_running_loop().create_unix_server(protocol, sock=bound_socket, backlog=BACKLOG)
        try:
            yield
        finally:
            server.close()
            await drain_connections(state)


def protocol_config(app: ASGIApp, protocol: type[HttpToolsProtocol]) -> uvicorn.Config:
    """How uvicorn's protocol serves the application."""
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    return config


def protocol_state() -> ServerState:
    """What the connections of one listener share."""
    state = ServerState()
    state.default_headers = list(DEFAULT_RESPONSE_HEADERS)
    return state


async def drain_connections(state: ServerState) -> None:
    """Let answers that are being written be written; idle connections are closed at once."""
    for connection in tuple(state.connections):
        connection.shutdown()
    tasks: set[asyncio.Task[Any]] = set(state.tasks)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=DRAIN_TIMEOUT_S)
        for task in late:
            task.cancel()
    for connection in tuple(state.connections):
        connection.transport.close()


@contextmanager
def claim_socket(path: Path) -> Generator[None, None, None]:
    """The right to be the daemon of this socket, for as long as the block runs.

    Raises:
        Conflict: another daemon has it; names its pid.
        Unreachable: the place cannot be written to.
    """
    try:
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _SOCKET_MODE)
    except OSError as error:
        raise _cannot_listen_error(path, error) from error
    try:
        try:
            # The kernel frees it however we end, so a socket without a lock belongs to nobody.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _already_running_error(path, os.pread(lock, 20, 0)) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


@contextmanager
def bind_unix_socket(path: Path) -> Generator[socket.socket, None, None]:
    """A socket bound to this path, for its owner alone. What a killed daemon left there is replaced.

    Raises:
        Unreachable: it cannot be made.
    """
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        try:
            os.fchmod(made.fileno(), _SOCKET_MODE)  # before it has a name: never open to others, not for a moment
            with socket_address(path) as address:
                made.bind(address)
                made.listen(socket.SOMAXCONN)  # at once: whoever sees the file may connect
        except OSError as error:
            raise _cannot_listen_error(path, error) from error
        made.setblocking(False)
        try:
            yield made
        finally:
            path.unlink(missing_ok=True)


def _cannot_listen_error(path: Path, error: OSError) -> Unreachable:
    return Unreachable(f"cannot listen on {path}: {error.strerror}", code="http.cannot_listen")


def _already_running_error(path: Path, written: bytes) -> Conflict:
    pid = int(written) if written.isdigit() else None  # none yet where it took the lock this very moment
    who = f" (pid {pid})" if pid else ""
    return Conflict(
        f"a daemon is running already{who}",
        code="daemon.running",
        hint=f"use it, or stop it first: kill {pid}" if pid else "use it, or stop it first",
        details={"pid": pid, "socket": str(path)},
    )
