"""One request and its answer, over a connection to an address that was checked."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import anyio

from paddock.cage.network.destinations import NOT_GRANTED, Destination
from paddock.cage.network.dialing import NotDialled, Outside, dial
from paddock.capabilities.http.destination import WebDestinations
from paddock.capabilities.http.headers import Headers, on_the_wire
from paddock.capabilities.http.hop import Hop, Reply
from paddock.core.errors import Denied, Unreachable
from paddock.rpc.http_client import HttpClient, HttpLost, Origin, TooLarge

DIAL_SECONDS = 10.0

REPEATABLE = frozenset({"http.unreachable", "http.lost"})
"""What may be otherwise a moment later."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends requests for one plugin.

    Attributes:
        granted: Where they may go.
        outside: Looks names up and makes connections.
        tls: How servers are trusted.
        lookups: How many names may be looked up at a time.
        may_send: Asked before each request, once there is a connection for it; raises where it may not be sent any
            more.
    """

    granted: WebDestinations
    outside: Outside
    tls: Callable[[], ssl.SSLContext]
    lookups: anyio.Semaphore
    may_send: Callable[[], Awaitable[None]]

    def check(self, origin: Origin) -> None:
        """See that the plugin may mean this place. Where its name leads is seen when it is dialled.

        Raises:
            Denied: it may not.
        """
        if not self.granted.allows(origin.host, origin.port):
            raise _denied(origin, NOT_GRANTED, "was not granted")

    async def send(self, hop: Hop, headers: Headers, most: int) -> Reply:
        """The answer to a request.

        Raises:
            Denied: its name leads to where nobody may go, or it may not be sent any more.
            Unreachable: there is none, it is too large, or the certificate is not trusted.
        """
        origin = hop.place.origin
        tls = self.tls() if origin.scheme == "https" else None
        client = HttpClient(origin, tls, dial=partial(self._dialled, origin))
        try:
            async with client.request(hop.method, hop.place.target, on_the_wire(headers), hop.body) as response:
                body = b"" if hop.method == "HEAD" else await response.body(most)
                return Reply(response.status, response.headers, body)
        except NotDialled as error:
            if error.denied:
                raise _denied(origin, error.code, "leads to an address that is not public") from None
            raise Unreachable(f"{origin} cannot be reached ({error.code})", code="http.unreachable") from None
        except TooLarge as error:
            raise Unreachable(
                f"{origin}: {error}", code="http.too_large", hint="ask for less, or raise max_bytes"
            ) from None
        except HttpLost as error:
            untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            raise Unreachable(_about(origin, error), code="http.untrusted" if untrusted else "http.lost") from None
        finally:
            client.close()

    async def _dialled(self, origin: Origin) -> socket.socket:
        destination = Destination(origin.host, origin.port)
        made, _address = await dial(destination, self.granted, self.outside, lookups=self.lookups, seconds=DIAL_SECONDS)
        try:
            await self.may_send()
        except BaseException:
            made.close()
            raise
        return made


def _about(origin: Origin, error: HttpLost) -> str:
    said = str(error)
    return said if str(origin) in said else f"{origin}: {said}"


def _denied(origin: Origin, reason: str, why: str) -> Denied:
    wanted = f"net:{f'[{origin.host}]' if ':' in origin.host else origin.host}:{origin.port}"
    return Denied(
        f"{origin} {why}",
        code="http.not_allowed",
        hint=f"declare '{wanted}' in its manifest, and grant it"
        if reason == NOT_GRANTED
        else "only a grant of the address itself, 'net:ADDRESS:PORT', opens a way to it",
        details={"capability": wanted, "reason": reason},
    )
