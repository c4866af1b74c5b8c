"""Authentication of callers: local socket peers, API keys and bearer tokens. Authorization is decided elsewhere."""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct
from starlette.requests import Request
from starlette.types import Scope

from paddock.config.directories import user_name
from paddock.core.action import Action
from paddock.core.call import Principal
from paddock.core.error_formats import http_status
from paddock.core.errors import Denied, PaddockError
from paddock.host.host import Host
from paddock.host.identity.caller import local_principal
from paddock.web.request_headers import IncomingHeaders, request_headers

_UCRED = struct.Struct("3i")  # pid, uid, gid of the kernel's `struct ucred`
ROOT_UID = 0
REALM = "paddock"

Via: TypeAlias = Literal["socket", "key", "session", "token"]

ChallengeParameters: TypeAlias = Callable[[Scope, PaddockError], Mapping[str, str]]
"""Parameters of a challenge beside the realm, such as `resource_metadata`."""
INSUFFICIENT_SCOPE: Final = "insufficient_scope"


class PeerCredentials(Struct, frozen=True):
    """The process at the other end of a Unix socket, as the kernel reports it."""

    pid: int
    uid: int


class Caller(Struct, frozen=True):
    """An authenticated caller.

    Attributes:
        principal: Who it is, in its own tenant, with its rights.
        operator: Login name of the operator on the local socket; only the operator may impersonate others.
        via: The kind of credential.
    """

    principal: Principal
    operator: str | None
    via: Via


class Unauthenticated(Denied):
    """The request has no credential."""

    code = "auth.needed"


class TokenAuthenticator(Protocol):
    """Authenticates one kind of bearer token."""

    async def authenticate(self, token: str, scope: Scope) -> Caller | None:
        """Return the caller that holds the token; None if it is of another kind.

        Raises:
            Denied: `auth.refused`, it is of this kind and invalid.
        """
        ...


def peer_credentials(connection: socket.socket) -> PeerCredentials | None:
    """Return the peer's credentials; None over TCP."""
    if connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return PeerCredentials(pid, uid)


def authenticate_local_peer(peer: PeerCredentials, own_uid: int) -> Caller:
    """Authenticate the user who runs this daemon, or root.

    Raises:
        Denied: it is another user.
    """
    if peer.uid not in (own_uid, ROOT_UID):
        raise Denied(
            f"user {peer.uid} is not the operator of this daemon",
            code="auth.not_the_operator",
            hint=f"use it as user {own_uid}, who started it, or over TCP with an API key",
        )
    return _local_caller(peer.uid)


@lru_cache(maxsize=64)  # few users make all local requests
def _local_caller(uid: int) -> Caller:
    operator = user_name(uid)
    return Caller(local_principal(operator), operator, "socket")


class ApiKeyAuthenticator:
    """Authenticates API keys."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def authenticate(self, token: str, scope: Scope) -> Caller | None:
        del scope
        if not token.startswith("pdk_"):
            return None
        return Caller(await self._host.identity.credentials.verify_api_key(token), None, "key")


class Authenticator:
    """Authenticates the caller of a request.

    Args:
        token_authenticators: One for each accepted kind of token.
        own_uid: The user who runs this daemon.
        rights_revision: Changes with each change of who may act.
        authenticate_cookie: Authenticates requests that have a session cookie and no token.
    """

    def __init__(
        self,
        token_authenticators: tuple[TokenAuthenticator, ...],
        own_uid: int,
        rights_revision: Callable[[], int],
        authenticate_cookie: Callable[[Scope], Awaitable[Caller | None]] | None = None,
    ) -> None:
        self.rights_revision = rights_revision
        self._token_authenticators = token_authenticators
        self._own_uid = own_uid
        self._authenticate_cookie = authenticate_cookie

    async def authenticate(self, scope: Scope) -> Caller | None:
        """Return the caller; None if the request has no credential.

        On the local socket it is the operator. A request there with a token gets only the token's rights.

        Raises:
            Denied: the credential is invalid, or the peer is another user of this machine.
        """
        peer = scope["state"].get("peer")
        local = None if peer is None else authenticate_local_peer(peer, self._own_uid)
        headers = request_headers(scope)
        if b"authorization" in headers:
            return await self._authenticate_bearer(headers, scope)
        if local is not None or self._authenticate_cookie is None:
            return local
        return await self._authenticate_cookie(scope)

    async def _authenticate_bearer(self, headers: IncomingHeaders, scope: Scope) -> Caller:
        scheme, _, token = headers[b"authorization"].decode("latin-1").strip().partition(" ")
        if b"authorization" not in headers.repeated and scheme.lower() == "bearer":
            for authenticator in self._token_authenticators:
                caller = await authenticator.authenticate(token.strip(), scope)
                if caller is not None:
                    return caller
        raise Denied(
            "invalid or unsupported token",
            code="auth.refused",
            hint="send one header, Authorization: Bearer KEY",
            action=Action.of("apikey.add"),
        )


def unauthenticated_error() -> Unauthenticated:
    """Build the error for requests without a credential."""
    return Unauthenticated(
        "authentication required",
        hint="send the header Authorization: Bearer KEY, or sign in with a link",
        action=Action.of("apikey.add"),
    )


def www_authenticate_header(
    scope: Scope, error: PaddockError, extra_parameters: ChallengeParameters | None
) -> str | None:
    """Return the `WWW-Authenticate` challenge (RFC 6750), without `error` if no credential was sent.

    None if another credential would change nothing.
    """
    parameters = {"realm": REALM} | ({"error": "invalid_token"} if error.error_code == "auth.refused" else {})
    parameters |= dict(extra_parameters(scope, error)) if extra_parameters else {}
    if http_status(error) != 401 and parameters.get("error") != INSUFFICIENT_SCOPE:
        return None
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())


def caller_of(request: Request) -> Caller:
    """Return the caller, as authenticated by `app.py` before any handler runs."""
    caller = request.scope["state"]["caller"]
    assert isinstance(caller, Caller)
    return caller
