"""One event to one receiver, over a connection to an address that was checked. Nothing is followed elsewhere.

Where it may go is judged as for a plugin's requests: every public host, on the ports of the web and from 1024 on, and
what is private only where the settings name its address. In the clear events go to such private addresses alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import ip_address

import anyio
import orjson

from paddock import __version__
from paddock.cage.network.destinations import Destination
from paddock.cage.network.dialing import NotDialled, Outside, SystemOutside, dial
from paddock.cage.plan.addresses import literal
from paddock.capabilities.http.destination import Place, WebDestinations, place_of
from paddock.capabilities.http.retry import retry_after
from paddock.config.addresses import private_network
from paddock.core.clock import Clock
from paddock.core.errors import Denied
from paddock.core.secret import Secret
from paddock.events.cloud_event import MEDIA, CloudEvent
from paddock.events.signature import signed
from paddock.events.verdict import Attempt
from paddock.rpc.http_client import HttpClient, HttpLost, TooLarge

SECONDS = 15.0  # for one attempt, from looking the name up to the answer
_DIAL_SECONDS = 10.0
_ANSWER_SECONDS = 2.0  # for what comes behind a status, which says already whether it was taken
_MOST_ANSWER = 64 * 1024  # bytes that are read so that the connection can be used again
_LOOKUPS = 16


class Receivers(WebDestinations):
    """Where webhooks may be sent to.

    Args:
        private: Addresses that are let be private; see the setting `events.private_receivers`.
    """

    def __init__(self, private: Iterable[str]) -> None:
        super().__init__(())
        self._private = tuple(private_network(one) for one in private)

    def allows(self, host: str, port: int) -> bool:
        return super().allows(host, port) or self.granted_itself(host, port)

    def may_dial(self, address: str, port: int) -> bool:
        return self.granted_itself(address, port) or super().may_dial(address, port)

    def granted_itself(self, address: str, port: int) -> bool:
        written = literal(address)
        if written is None:
            return False
        at = ip_address(written)
        return any(
            at.version == network.version and at in network and only in (None, port) for network, only in self._private
        )

    def checked(self, url: str) -> Place:
        """The place that a webhook's address names, as far as that can be told before its name is looked up.

        Raises:
            CallerError: it is no web address.
            Denied: it leads to where none may.
        """
        place = place_of(url)
        origin = place.origin
        address = literal(origin.host)
        dialled = address is None or self.may_dial(address, origin.port)
        if not dialled or not self.allows(origin.host, origin.port):
            raise not_allowed(str(origin))
        if address is not None and origin.scheme == "http" and not self.granted_itself(address, origin.port):
            raise Denied(
                "events are not sent to a public address in the clear", code="webhook.not_https", hint="use https://"
            )
        return place


def not_allowed(where: str) -> Denied:
    """What is said of an address that is not public, or of a port that is none of the web's."""
    return Denied(
        f"{where} is none that webhooks may be sent to",
        code="webhook.not_allowed",
        hint="give a public host; a private address has to be named in the setting events.private_receivers",
    )


class Line:
    """A connection to one receiver, used again for as long as it takes what it is sent."""

    def __init__(self, place: Place, client: HttpClient, clock: Clock) -> None:
        self._place = place
        self._client = client
        self._clock = clock
        self._used = False

    async def send(self, event: CloudEvent, secrets: Sequence[Secret]) -> Attempt:
        """Send one event; whatever goes wrong is part of the answer."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._sent(event, secrets)
        except TimeoutError:
            return Attempt(reason="timeout")
        except NotDialled as error:
            return Attempt(reason="not_allowed" if error.denied else error.code)
        except Denied as error:
            return Attempt(reason=error.error_code)
        except HttpLost as error:
            untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            return Attempt(reason="untrusted" if untrusted else "lost")
        except TooLarge:
            return Attempt(reason="too_large")

    async def _sent(self, event: CloudEvent, secrets: Sequence[Secret]) -> Attempt:
        body = orjson.dumps(event)
        head = (
            ("content-type", MEDIA),
            ("user-agent", f"paddock/{__version__}"),
            *signed(event["id"], int(self._clock.now().timestamp()), body, secrets),
        )
        try:
            answer = await self._post(head, body)
        except HttpLost:
            if not self._used:
                raise
            # It may have closed the connection while this was on its way; what it takes twice has the same id.
            self._client.close()
            answer = await self._post(head, body)
        self._used = True
        return answer

    async def _post(self, head: Sequence[tuple[str, str]], body: bytes) -> Attempt:
        async with self._client.request("POST", self._place.target, head, body) as response:
            status, wait = response.status, retry_after(response.headers.get("retry-after"), self._clock.now())
            # What it says beside its status is nobody's business, and must not have it sent again.
            with contextlib.suppress(HttpLost, TooLarge, TimeoutError):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await response.body(_MOST_ANSWER)
            return Attempt(status) if 200 <= status < 300 else Attempt(status, f"status.{status}", wait or 0.0)


class Sender:
    """Makes connections to receivers.

    Args:
        receivers: Where they may be.
        clock: Stamps what is sent.
        outside: Looks names up and makes connections; the system's where none is given.
        tls: How receivers are trusted; as the system does where it is not given.
    """

    def __init__(
        self,
        receivers: Receivers,
        clock: Clock,
        *,
        outside: Outside | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._receivers = receivers
        self._clock = clock
        self._outside = outside or SystemOutside()
        self._tls = cache(tls)  # takes a moment, and many hosts never need it
        self._lookups = anyio.Semaphore(_LOOKUPS)

    @asynccontextmanager
    async def line_to(self, url: str) -> AsyncGenerator[Line, None]:
        """The way to a receiver for as long as the block runs. Nothing is dialled before something is sent."""
        place = place_of(url)
        origin = place.origin

        async def dialled() -> socket.socket:
            if not self._receivers.allows(origin.host, origin.port):
                raise not_allowed(str(origin))
            made, address = await dial(
                Destination(origin.host, origin.port),
                self._receivers,
                self._outside,
                lookups=self._lookups,
                seconds=_DIAL_SECONDS,
            )
            if origin.scheme == "http" and not self._receivers.granted_itself(address, origin.port):
                made.close()
                raise Denied("events are not sent to a public address in the clear", code="webhook.not_https")
            return made

        client = HttpClient(origin, self._tls() if origin.scheme == "https" else None, dial=dialled)
        try:
            yield Line(place, client, self._clock)
        finally:
            await client.aclose()
