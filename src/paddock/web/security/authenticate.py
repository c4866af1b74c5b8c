"""Who is calling. This file only proves it; what they may do is decided elsewhere."""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias

from starlette.requests import Request
from starlette.types import Scope

from paddock.config.directories import user_name
from paddock.core.call import Principal
from paddock.core.error_mapping import http_status
from paddock.core.errors import Denied, PaddockError
from paddock.host.host import Host
from paddock.host.identity.caller import local_principal
from paddock.web.request_headers import IncomingHeaders, request_headers

_UCRED = struct.Struct("3i")  # pid, uid, gid, as the kernel has them
ROOT_UID = 0
REALM = "paddock"

Via: TypeAlias = Literal["socket", "key", "session", "token"]

ChallengeParameters: TypeAlias = Callable[[Scope, PaddockError], Mapping[str, str]]
"""What a refusal says beside the realm, such as `resource_metadata`."""
INSUFFICIENT_SCOPE: Final = "insufficient_scope"


@dataclass(frozen=True, slots=True)
class PeerCredentials:
    """The process at the other end of a local connection, as the kernel knows it."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was proven to be the principal.

    Attributes:
        principal: Who they are, in their own tenant, with what they may do.
        operator: The login name of whoever operates this daemon, on its local socket; nobody else may act as others.
        via: What proved it.
    """

    principal: Principal
    operator: str | None
    via: Via


class Unauthenticated(Denied):
    """Nobody was proven to be anybody."""

    code = "auth.needed"


class TokenAuthenticator(Protocol):
    """Proves who holds one kind of token."""

    async def authenticate(self, token: str, scope: Scope) -> Caller | None:
        """Who holds it; None where it is of another kind.

        Raises:
            Denied: `auth.refused`, it is of this kind and proves nobody.
        """
        ...


def peer_credentials(connection: socket.socket) -> PeerCredentials | None:
    """Who opened this connection; None where the kernel does not say, as over TCP."""
    if connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return PeerCredentials(pid, uid)


def authenticate_local_peer(peer: PeerCredentials, own_uid: int) -> Caller:
    """The person who runs this daemon, or root.

    Raises:
        Denied: it is somebody else.
    """
    if peer.uid not in (own_uid, ROOT_UID):
        raise Denied(
            f"user {peer.uid} is not the operator of this daemon",
            code="auth.not_the_operator",
            hint=f"use it as user {own_uid}, who started it, or over TCP with an API key",
        )
    return _local_caller(peer.uid)


@lru_cache(maxsize=64)  # the same few people make every call
def _local_caller(uid: int) -> Caller:
    operator = user_name(uid)
    return Caller(local_principal(operator), operator, "socket")


class ApiKeyAuthenticator:
    """API keys."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def authenticate(self, token: str, scope: Scope) -> Caller | None:
        del scope
        if not token.startswith("pdk_"):
            return None
        return Caller(await self._host.credentials.verify_api_key(token), None, "key")


class Authenticator:
    """Finds out who makes a request.

    Args:
        bearers: Each kind of token that is taken.
        cookies: Who has a session, where a request without a token brings one.
        own_uid: Who runs this daemon.
    """

    def __init__(
        self,
        bearers: tuple[TokenAuthenticator, ...],
        own_uid: int,
        cookies: Callable[[Scope], Awaitable[Caller | None]] | None = None,
    ) -> None:
        self._token_authenticators = bearers
        self._own_uid = own_uid
        self._authenticate_cookie = cookies

    async def authenticate(self, scope: Scope) -> Caller | None:
        """Whoever the request proves to make it; None where it proves nobody and does not claim to.

        On the local socket it is the operator. A request there that brings a token means to have no more than that
        gives.

        Raises:
            Denied: what it brings is not good, or it is another user of this machine.
        """
        peer = scope["state"].get("peer")
        local = None if peer is None else authenticate_local_peer(peer, self._own_uid)
        head = request_headers(scope)
        if b"authorization" in head:
            return await self._authenticate_bearer(head, scope)
        if local is not None or self._authenticate_cookie is None:
            return local
        return await self._authenticate_cookie(scope)

    async def _authenticate_bearer(self, head: IncomingHeaders, scope: Scope) -> Caller:
        scheme, _, token = head[b"authorization"].decode("latin-1").strip().partition(" ")
        if b"authorization" not in head.repeated and scheme.lower() == "bearer":
            for one in self._token_authenticators:
                caller = await one.authenticate(token.strip(), scope)
                if caller is not None:
                    return caller
        raise Denied(
            "this is no token that is taken here",
            code="auth.refused",
            hint="send one header, Authorization: Bearer KEY; make a key: paddock apikey create NAME",
        )


def unauthenticated_error() -> Unauthenticated:
    """What whoever brings nothing is told."""
    return Unauthenticated(
        "say who you are",
        hint="send the header Authorization: Bearer KEY; make a key: paddock apikey create NAME, or sign in with the"
        " link of: paddock login",
    )


def www_authenticate_header(scope: Scope, error: PaddockError, more: ChallengeParameters | None) -> str | None:
    """The `WWW-Authenticate` of a refusal (RFC 6750): without an error where nothing was brought.

    None where another credential would change nothing.
    """
    said = {"realm": REALM} | ({"error": "invalid_token"} if error.error_code == "auth.refused" else {})
    said |= dict(more(scope, error)) if more else {}
    if http_status(error) != 401 and said.get("error") != INSUFFICIENT_SCOPE:
        return None
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items())


def caller_of(request: Request) -> Caller:
    """Who made this request, as `app.py` has proven it before any handler ran."""
    caller = request.scope["state"]["caller"]
    assert isinstance(caller, Caller)
    return caller
