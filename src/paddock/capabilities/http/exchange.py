"""One HTTP request and its response, over a connection to a checked address."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from msgspec import Struct

from paddock.capabilities.http.headers import Headers, wire_headers
from paddock.capabilities.http.hop import FetchHop, FetchReply
from paddock.core.action import Action
from paddock.core.errors import Denied, Unreachable
from paddock.net.dial import DialFailed, OutboundNetwork, dial
from paddock.net.egress import NOT_GRANTED, Destination
from paddock.net.http_client import HttpClient, HttpConnectionLost, HttpOrigin, ResponseTooLarge
from paddock.net.web_url import WebEgressPolicy

DIAL_TIMEOUT_S = 10.0

RETRYABLE_ERRORS = frozenset({"http.unreachable", "http.lost"})
"""Error codes after which a retry may succeed."""


class FetchExchange(Struct, frozen=True):
    """Sends requests for one plugin.

    Attributes:
        granted: The destinations that the plugin may reach.
        outside: Resolves names and opens connections.
        tls: Provides the TLS context that decides which servers are trusted.
        lookups: Limits concurrent name lookups.
        grant_action: The action that grants the plugin a capability.
        may_send: Called before each request, once its connection is open; raises if it may not be sent any more.
    """

    granted: WebEgressPolicy
    outside: OutboundNetwork
    tls: Callable[[], ssl.SSLContext]
    lookups: anyio.Semaphore
    grant_action: Callable[[str], Action]
    may_send: Callable[[], Awaitable[None]]

    def check(self, origin: HttpOrigin) -> None:
        """Check that the plugin may address this origin. The address that it resolves to is checked when dialling.

        Raises:
            Denied: it may not.
        """
        if not self.granted.allows(origin.host, origin.port):
            raise self._denied_error(origin, NOT_GRANTED, "was not granted")

    async def send(self, hop: FetchHop, headers: Headers, max_bytes: int) -> FetchReply:
        """Send a request and return the response.

        Raises:
            Denied: the name resolves to a forbidden address, or the request may not be sent any more.
            Unreachable: there is no response, it is too large, or the certificate is not trusted.
        """
        origin = hop.address.origin
        tls = self.tls() if origin.scheme == "https" else None
        client = HttpClient(origin, tls, dial=partial(self._dial, origin))
        try:
            async with client.request(hop.method, hop.address.target, wire_headers(headers), hop.body) as response:
                body = b"" if hop.method == "HEAD" else await response.read_body(max_bytes)
                return FetchReply(response.status, response.headers, body)
        except DialFailed as error:
            if error.denied:
                raise self._denied_error(origin, error.code, "leads to an address that is not public") from None
            raise Unreachable(f"{origin} cannot be reached ({error.code})", code="http.unreachable") from None
        except ResponseTooLarge as error:
            raise Unreachable(
                f"{origin}: {error}", code="http.too_large", hint="ask for less, or raise max_bytes"
            ) from None
        except HttpConnectionLost as error:
            untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            raise Unreachable(
                _error_message(origin, error), code="http.untrusted" if untrusted else "http.lost"
            ) from None
        finally:
            client.close()

    async def _dial(self, origin: HttpOrigin) -> socket.socket:
        destination = Destination(origin.host, origin.port)
        connection, _address = await dial(
            destination, self.granted, self.outside, lookups=self.lookups, seconds=DIAL_TIMEOUT_S
        )
        try:
            await self.may_send()
        except BaseException:
            connection.close()
            raise
        return connection

    def _denied_error(self, origin: HttpOrigin, reason: str, problem: str) -> Denied:
        capability = f"net:{f'[{origin.host}]' if ':' in origin.host else origin.host}:{origin.port}"
        return Denied(
            f"{origin} {problem}",
            code="http.not_allowed",
            action=self.grant_action(capability),
            hint=f"declare '{capability}' in its manifest, and grant it"
            if reason == NOT_GRANTED
            else "only a grant of the address itself, 'net:ADDRESS:PORT', opens a way to it",
            details={"capability": capability, "reason": reason},
        )


def _error_message(origin: HttpOrigin, error: HttpConnectionLost) -> str:
    message = str(error)
    return message if str(origin) in message else f"{origin}: {message}"
