"""The Unix socket server, for the socket's owner only, and the daemon's single-instance lock."""

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
DRAIN_TIMEOUT_S = 5.0  # time for running responses once no new requests are accepted
DEFAULT_RESPONSE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Security headers of every response. The content security policy is set per page; see `security/headers.py`."""
_SOCKET_MODE = 0o600


class UnixSocketProtocol(HttpProtocol):
    """HTTP protocol that adds the peer's process credentials to each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        # uvicorn copies this into the state of every request of this connection.
        self.app_state = {**self.app_state, "peer": peer_credentials(transport.get_extra_info("socket"))}


@asynccontextmanager
async def serve_unix_socket(app: ASGIApp, path: Path) -> AsyncGenerator[None, None]:
    """Serve the application on a Unix socket while the block runs. The caller must hold `claim_socket`.

    Raises:
        Unreachable: the socket cannot be created.
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
    """Build uvicorn's configuration for a protocol."""
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
    """Create the state that the connections of one listener share."""
    state = ServerState()
    state.default_headers = list(DEFAULT_RESPONSE_HEADERS)
    return state


async def drain_connections(state: ServerState) -> None:
    """Let running responses finish, up to a timeout; close idle connections at once."""
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
    """Hold the single-instance lock of this socket while the block runs.

    Raises:
        Conflict: another daemon holds it; names its pid.
        Unreachable: the lock file cannot be written.
    """
    try:
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _SOCKET_MODE)
    except OSError as error:
        raise _cannot_listen_error(path, error) from error
    try:
        try:
            # The kernel releases it however we end, so a socket without a held lock is stale.
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
    """Yield a socket bound to this path, for its owner only. The file of a killed daemon is replaced.

    Raises:
        Unreachable: it cannot be created.
    """
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server_socket:
        try:
            os.fchmod(server_socket.fileno(), _SOCKET_MODE)  # before bind: never open to others, not even briefly
            with socket_address(path) as address:
                server_socket.bind(address)
                server_socket.listen(socket.SOMAXCONN)  # at once: clients may connect as soon as the file exists
        except OSError as error:
            raise _cannot_listen_error(path, error) from error
        server_socket.setblocking(False)
        try:
            yield server_socket
        finally:
            path.unlink(missing_ok=True)


def _cannot_listen_error(path: Path, error: OSError) -> Unreachable:
    return Unreachable(f"cannot listen on {path}: {error.strerror}", code="http.cannot_listen")


def _already_running_error(path: Path, lock_content: bytes) -> Conflict:
    pid = int(lock_content) if lock_content.isdigit() else None  # empty if it took the lock this very moment
    who = f" (pid {pid})" if pid else ""
    return Conflict(
        f"a daemon is running already{who}",
        code="daemon.running",
        hint=f"use it, or stop it first: kill {pid}" if pid else "use it, or stop it first",
        details={"pid": pid, "socket": str(path)},
    )
