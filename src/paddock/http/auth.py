"""Who is calling. This file only proves it; what they may do is decided elsewhere."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from starlette.requests import Request

from paddock.config.owners import user_name
from paddock.core.errors import Denied

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid, as the kernel has them
ROOT = 0


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a local connection, as the kernel knows it."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class Caller:
    """A person that was proven to be one."""

    operator: str


def peer_of(connection: socket.socket) -> Peer | None:
    """Who opened this connection; None where the kernel does not say, as over TCP."""
    if connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid)


def local_operator(peer: Peer | None, own_uid: int) -> Caller:
    """The person who runs this daemon, or root.

    Raises:
        Denied: it is somebody else.
    """
    if peer is None or peer.uid not in (own_uid, ROOT):
        who = f"user {peer.uid}" if peer else "whoever this is"
        raise Denied(
            f"{who} is not the operator of this daemon",
            code="auth.not_the_operator",
            hint=f"use it as user {own_uid}, who started it",
        )
    return Caller(user_name(peer.uid))


def caller_of(request: Request) -> Caller:
    """Who made this request, as `app.py` has proven it before any handler ran."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller
