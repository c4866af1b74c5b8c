"""The TCP server: runs while its block runs, with connection limits."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import cast

from starlette.types import ASGIApp

from paddock.config.web_settings import HttpSettings
from paddock.core.errors import Conflict, PaddockError, Unreachable
from paddock.web.server.limits import ConnectionLimits, LimitedHttpProtocol
from paddock.web.server.unix_socket import BACKLOG, drain_connections, protocol_config, protocol_state

_EXPIRY_INTERVAL_S = 1.0

log = logging.getLogger("paddock.web")


def connection_limits(http: HttpSettings) -> ConnectionLimits:
    """Build the limits from the settings."""
    return ConnectionLimits(
        max_connections=http.max_connections,
        max_header_bytes=http.max_header_bytes,
        header_timeout_s=http.header_timeout_s,
        body_timeout_s=http.body_timeout_s,
        idle_timeout_s=http.idle_timeout_s,
    )


@asynccontextmanager
async def serve_tcp(
    app: ASGIApp, address: str, limits: ConnectionLimits, render_error: Callable[[PaddockError], bytes]
) -> AsyncGenerator[str, None]:
    """Serve the application over TCP while the block runs; yields the URL, as in `http://127.0.0.1:7433`.

    Args:
        app: The application.
        address: Host and port; port 0 picks a free one.
        limits: Limits of connections.
        render_error: Renders the body of errors that occur before the application runs.

    Raises:
        Conflict: another program listens there.
        Unreachable: the address cannot be bound.
    """
    config, state = protocol_config(app, LimitedHttpProtocol), protocol_state()
    connections = cast("set[LimitedHttpProtocol]", state.connections)

    def protocol() -> LimitedHttpProtocol:
        return LimitedHttpProtocol(limits, render_error, config=config, server_state=state, app_state={})

    with await _bind_tcp(address) as bound_socket:
        server = await asyncio.get_running_loop().create_server(protocol, sock=bound_socket, backlog=BACKLOG)
        expiry_task = asyncio.create_task(
            _expire_connections(connections, min(_EXPIRY_INTERVAL_S, limits.shortest_timeout_s / 2))
        )
        try:
            yield f"http://{_format_address(bound_socket.getsockname())}"
        finally:
            expiry_task.cancel()
            server.close()
            await drain_connections(state)


async def _expire_connections(connections: set[LimitedHttpProtocol], interval_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(interval_s)
        now = loop.time()
        for connection in tuple(connections):
            if connection.deadline is not None and connection.deadline < now:
                try:
                    connection.time_out()
                except Exception:  # one broken connection must not lift the limits of all others
                    log.exception("a connection that is late could not be ended")


async def _bind_tcp(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise Unreachable(f"cannot listen on {address}: {error.strerror}", code="http.cannot_listen") from error
    family, _, _, _, socket_address = addresses[0]
    server_socket = socket.socket(family, socket.SOCK_STREAM)
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            server_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server_socket.bind(socket_address)
        server_socket.listen(BACKLOG)
        server_socket.setblocking(False)
    except OSError as error:
        server_socket.close()
        raise _cannot_listen_error(address, error) from error
    return server_socket


def _cannot_listen_error(address: str, error: OSError) -> PaddockError:
    if error.errno != errno.EADDRINUSE:
        reason = os.strerror(error.errno or 0)
        return Unreachable(f"cannot listen on {address}: {reason}", code="http.cannot_listen")
    return Conflict(
        f"another program listens on {address}",
        code="http.port_taken",
        hint="stop it, or set http.address to another port, or to off for the Unix socket alone",
        details={"address": address},
    )


def _format_address(socket_address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    return (
        f"[{socket_address[0]}]:{socket_address[1]}"
        if ":" in socket_address[0]
        else f"{socket_address[0]}:{socket_address[1]}"
    )
