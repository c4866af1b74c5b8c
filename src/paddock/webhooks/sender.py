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
from paddock.config.validators import parse_private_network
from paddock.core.clock import Clock
from paddock.core.errors import Denied
from paddock.core.secret import Secret
from paddock.net.dial import DialFailed, OutboundNetwork, SystemNetwork, dial
from paddock.net.egress import Destination, parse_ip_literal
from paddock.net.http_client import HttpClient, HttpConnectionLost, ResponseTooLarge, parse_retry_after
from paddock.net.web_url import WebEgressPolicy, WebTarget, parse_web_url
from paddock.webhooks.cloud_event import CLOUDEVENTS_MEDIA_TYPE, CloudEvent
from paddock.webhooks.retry import DeliveryAttempt
from paddock.webhooks.signature import signature_headers

ATTEMPT_TIMEOUT_S = 15.0  # for one attempt, from looking the name up to the answer
_DIAL_TIMEOUT_S = 10.0
_BODY_TIMEOUT_S = 2.0  # for what comes behind a status, which says already whether it was taken
_MAX_RESPONSE_BYTES = 64 * 1024  # bytes that are read so that the connection can be used again
_MAX_CONCURRENT_LOOKUPS = 16


class ReceiverDestinations(WebEgressPolicy):
    """Where webhooks may be sent to.

    Args:
        private: Addresses that are let be private; see the setting `events.private_receivers`.
    """

    def __init__(self, private: Iterable[str]) -> None:
        super().__init__(())
        self._private = tuple(parse_private_network(one) for one in private)

    def allows(self, host: str, port: int) -> bool:
        return super().allows(host, port) or self.grants_address(host, port)

    def allows_address(self, address: str, port: int) -> bool:
        return self.grants_address(address, port) or super().allows_address(address, port)

    def grants_address(self, address: str, port: int) -> bool:
        written = parse_ip_literal(address)
        if written is None:
            return False
        at = ip_address(written)
        return any(
            at.version == network.version and at in network and only in (None, port) for network, only in self._private
        )

    def validate_url(self, url: str) -> WebTarget:
        """The place that a webhook's address names, as far as that can be told before its name is looked up.

        Raises:
            CallerError: it is no web address.
            Denied: it leads to where none may.
        """
        place = parse_web_url(url)
        origin = place.origin
        address = parse_ip_literal(origin.host)
        dialled = address is None or self.allows_address(address, origin.port)
        if not dialled or not self.allows(origin.host, origin.port):
            raise receiver_not_allowed_error(str(origin))
        if address is not None and origin.scheme == "http" and not self.grants_address(address, origin.port):
            raise Denied(
                "events are not sent to a public address in the clear", code="webhook.not_https", hint="use https://"
            )
        return place


def receiver_not_allowed_error(where: str) -> Denied:
    """What is said of an address that is not public, or of a port that is none of the web's."""
    return Denied(
        f"{where} is none that webhooks may be sent to",
        code="webhook.not_allowed",
        hint="give a public host; a private address has to be named in the setting events.private_receivers",
    )


class ReceiverConnection:
    """A connection to one receiver, used again for as long as it takes what it is sent."""

    def __init__(self, place: WebTarget, client: HttpClient, clock: Clock) -> None:
        self._place = place
        self._client = client
        self._clock = clock
        self._used = False

    async def send(self, event: CloudEvent, secrets: Sequence[Secret]) -> DeliveryAttempt:
        """Send one event; whatever goes wrong is part of the answer."""
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                return await self._send_signed(event, secrets)
        except TimeoutError:
            return DeliveryAttempt(reason="timeout")
        except DialFailed as error:
            return DeliveryAttempt(reason="not_allowed" if error.denied else error.code)
        except Denied as error:
            return DeliveryAttempt(reason=error.error_code)
        except HttpConnectionLost as error:
            untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            return DeliveryAttempt(reason="untrusted" if untrusted else "lost")
        except ResponseTooLarge:
            return DeliveryAttempt(reason="too_large")

    async def _send_signed(self, event: CloudEvent, secrets: Sequence[Secret]) -> DeliveryAttempt:
        body = orjson.dumps(event)
        head = (
            ("content-type", CLOUDEVENTS_MEDIA_TYPE),
            ("user-agent", f"paddock/{__version__}"),
            *signature_headers(event["id"], int(self._clock.now().timestamp()), body, secrets),
        )
        try:
            answer = await self._post(head, body)
        except HttpConnectionLost:
            if not self._used:
                raise
            # It may have closed the connection while this was on its way; what it takes twice has the same id.
            self._client.close()
            answer = await self._post(head, body)
        self._used = True
        return answer

    async def _post(self, head: Sequence[tuple[str, str]], body: bytes) -> DeliveryAttempt:
        async with self._client.request("POST", self._place.target, head, body) as response:
            status, wait = response.status, parse_retry_after(response.headers.get("retry-after"), self._clock.now())
            # What it says beside its status is nobody's business, and must not have it sent again.
            with contextlib.suppress(HttpConnectionLost, ResponseTooLarge, TimeoutError):
                async with asyncio.timeout(_BODY_TIMEOUT_S):
                    await response.read_body(_MAX_RESPONSE_BYTES)
            return (
                DeliveryAttempt(status)
                if 200 <= status < 300
                else DeliveryAttempt(status, f"status.{status}", wait or 0.0)
            )


class WebhookSender:
    """Makes connections to receivers.

    Args:
        receivers: Where they may be.
        clock: Stamps what is sent.
        outside: Looks names up and makes connections; the system's where none is given.
        tls: How receivers are trusted; as the system does where it is not given.
    """

    def __init__(
        self,
        receivers: ReceiverDestinations,
        clock: Clock,
        *,
        outside: OutboundNetwork | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._receivers = receivers
        self._clock = clock
        self._outside = outside or SystemNetwork()
        self._tls = cache(tls)  # takes a moment, and many hosts never need it
        self._lookups = anyio.Semaphore(_MAX_CONCURRENT_LOOKUPS)

    @asynccontextmanager
    async def connect(self, url: str) -> AsyncGenerator[ReceiverConnection, None]:
        """The way to a receiver for as long as the block runs. Nothing is dialled before something is sent."""
        place = parse_web_url(url)
        origin = place.origin

        async def dialled() -> socket.socket:
            if not self._receivers.allows(origin.host, origin.port):
                raise receiver_not_allowed_error(str(origin))
            made, address = await dial(
                Destination(origin.host, origin.port),
                self._receivers,
                self._outside,
                lookups=self._lookups,
                seconds=_DIAL_TIMEOUT_S,
            )
            if origin.scheme == "http" and not self._receivers.grants_address(address, origin.port):
                made.close()
                raise Denied("events are not sent to a public address in the clear", code="webhook.not_https")
            return made

        client = HttpClient(origin, self._tls() if origin.scheme == "https" else None, dial=dialled)
        try:
            yield ReceiverConnection(place, client, self._clock)
        finally:
            await client.aclose()
