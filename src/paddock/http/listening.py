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
from paddock.http.answering import AnsweringConnection
from paddock.http.auth import peer_of
from paddock.http.local_address import address_of

BACKLOG = 512
LAST_WORDS = 5.0  # seconds for answers under way once nobody new is let in
ON_EVERYTHING = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""What browsers are told with every answer. What a page may load is said with the page; see `problems.py`."""
_OWNER_ONLY = 0o600


class PeerAware(AnsweringConnection):
    """uvicorn's HTTP, which also tells each request which process it came from."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        # What stands here is copied into the state of every request of this connection.
        self.app_state = {**self.app_state, "peer": peer_of(transport.get_extra_info("socket"))}


@asynccontextmanager
async def listening(app: ASGIApp, path: Path) -> AsyncGenerator[None, None]:
    """Serve the application on a local socket for as long as the block runs. The place must be `claimed`.

    Raises:
        Unreachable: the socket cannot be made.
    """
    config, state = protocol_config(app, PeerAware), protocol_state()

    def protocol() -> PeerAware:
        return PeerAware(config=config, server_state=state, app_state={})

    with bound(path) as bound_socket:
        server = await asyncio.get_running_loop().create_unix_server(protocol, sock=bound_socket, backlog=BACKLOG)
        try:
            yield
        finally:
            server.close()
            await finish(state)


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
    state.default_headers = list(ON_EVERYTHING)
    return state


async def finish(state: ServerState) -> None:
    """Let answers that are being written be written; idle connections are closed at once."""
    for connection in tuple(state.connections):
        connection.shutdown()
    tasks: set[asyncio.Task[Any]] = set(state.tasks)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=LAST_WORDS)
        for task in late:
            task.cancel()
    for connection in tuple(state.connections):
        connection.transport.close()


@contextmanager
def claimed(path: Path) -> Generator[None, None, None]:
    """The right to be the daemon of this socket, for as long as the block runs.

    Raises:
        Conflict: another daemon has it; names its pid.
        Unreachable: the place cannot be written to.
    """
    try:
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _OWNER_ONLY)
    except OSError as error:
        raise _cannot_listen(path, error) from error
    try:
        try:
            # The kernel frees it however we end, so a socket without a lock belongs to nobody.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(path, os.pread(lock, 20, 0)) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


@contextmanager
def bound(path: Path) -> Generator[socket.socket, None, None]:
    """A socket bound to this path, for its owner alone. What a killed daemon left there is replaced.

    Raises:
        Unreachable: it cannot be made.
    """
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        try:
            os.fchmod(made.fileno(), _OWNER_ONLY)  # before it has a name: never open to others, not for a moment
            with address_of(path) as address:
                made.bind(address)
                made.listen(socket.SOMAXCONN)  # at once: whoever sees the file may connect
        except OSError as error:
            raise _cannot_listen(path, error) from error
        made.setblocking(False)
        try:
            yield made
        finally:
            path.unlink(missing_ok=True)


def _cannot_listen(path: Path, error: OSError) -> Unreachable:
    return Unreachable(f"cannot listen on {path}: {error.strerror}", code="http.cannot_listen")


def _taken(path: Path, written: bytes) -> Conflict:
    pid = int(written) if written.isdigit() else None  # none yet where it took the lock this very moment
    who = f" (pid {pid})" if pid else ""
    return Conflict(
        f"a daemon is running already{who}",
        code="daemon.running",
        hint=f"use it, or stop it first: kill {pid}" if pid else "use it, or stop it first",
        details={"pid": pid, "socket": str(path)},
    )
