"""Sends events to webhook receivers over checked connections. Redirects are not followed.

Destinations follow the rules of plugin egress: every public host, on web ports and from 1024 on; private addresses
only if the settings name them. Plain HTTP is used for such private addresses only.
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

ATTEMPT_TIMEOUT_S = 15.0  # one attempt, from name lookup to response
_DIAL_TIMEOUT_S = 10.0
_BODY_TIMEOUT_S = 2.0  # for the body; the status already shows success
_MAX_RESPONSE_BYTES = 64 * 1024  # read so that the connection can be reused
_MAX_CONCURRENT_LOOKUPS = 16


class ReceiverDestinations(WebEgressPolicy):
    """Destinations that webhooks may be sent to.

    Args:
        private: Private networks that are allowed; see the setting `events.private_receivers`.
    """

    def __init__(self, private: Iterable[str]) -> None:
        super().__init__(())
        self._private = tuple(parse_private_network(network) for network in private)

    def allows(self, host: str, port: int) -> bool:
        return super().allows(host, port) or self.grants_address(host, port)

    def allows_address(self, address: str, port: int) -> bool:
        return self.grants_address(address, port) or super().allows_address(address, port)

    def grants_address(self, address: str, port: int) -> bool:
        literal = parse_ip_literal(address)
        if literal is None:
            return False
        ip = ip_address(literal)
        return any(
            ip.version == network.version and ip in network and allowed_port in (None, port)
            for network, allowed_port in self._private
        )

    def validate_url(self, url: str) -> WebTarget:
        """Parse a webhook's URL and check its destination, as far as possible before name lookup.

        Raises:
            CallerError: it is not a web URL.
            Denied: its destination is not allowed.
        """
        target = parse_web_url(url)
        origin = target.origin
        address = parse_ip_literal(origin.host)
        address_allowed = address is None or self.allows_address(address, origin.port)
        if not address_allowed or not self.allows(origin.host, origin.port):
            raise receiver_not_allowed_error(str(origin))
        if address is not None and origin.scheme == "http" and not self.grants_address(address, origin.port):
            raise Denied(
                "events are not sent to a public address in the clear", code="webhook.not_https", hint="use https://"
            )
        return target


def receiver_not_allowed_error(destination: str) -> Denied:
    """Build the error for a private address or a port outside the web's."""
    return Denied(
        f"webhooks may not be sent to {destination}",
        code="webhook.not_allowed",
        hint="give a public host, or allow a private address in config.toml, as in"
        ' [events] private_receivers = ["127.0.0.1:5678"], and restart the daemon',
    )


class ReceiverConnection:
    """A connection to one receiver, reused while it accepts events."""

    def __init__(self, target: WebTarget, client: HttpClient, clock: Clock) -> None:
        self._target = target
        self._client = client
        self._clock = clock
        self._used = False

    async def send(self, event: CloudEvent, secrets: Sequence[Secret]) -> DeliveryAttempt:
        """Send one event; failures are part of the result."""
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
        headers = (
            ("content-type", CLOUDEVENTS_MEDIA_TYPE),
            ("user-agent", f"paddock/{__version__}"),
            *signature_headers(event["id"], int(self._clock.now().timestamp()), body, secrets),
        )
        try:
            attempt = await self._post(headers, body)
        except HttpConnectionLost:
            if not self._used:
                raise
            # The receiver may have closed the idle connection; an event that it gets twice has the same id.
            self._client.close()
            attempt = await self._post(headers, body)
        self._used = True
        return attempt

    async def _post(self, headers: Sequence[tuple[str, str]], body: bytes) -> DeliveryAttempt:
        async with self._client.request("POST", self._target.target, headers, body) as response:
            status, retry_after_s = (
                response.status,
                parse_retry_after(response.headers.get("retry-after"), self._clock.now()),
            )
            # The body is irrelevant, and trouble with it must not cause another attempt.
            with contextlib.suppress(HttpConnectionLost, ResponseTooLarge, TimeoutError):
                async with asyncio.timeout(_BODY_TIMEOUT_S):
                    await response.read_body(_MAX_RESPONSE_BYTES)
            return (
                DeliveryAttempt(status)
                if 200 <= status < 300
                else DeliveryAttempt(status, f"status.{status}", retry_after_s or 0.0)
            )


class WebhookSender:
    """Opens connections to receivers.

    Args:
        receivers: Allowed destinations.
        clock: For timestamps.
        network: Resolves names and connects; the system's by default.
        tls: Creates the TLS context; trusts the system's certificates by default.
    """

    def __init__(
        self,
        receivers: ReceiverDestinations,
        clock: Clock,
        *,
        network: OutboundNetwork | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._receivers = receivers
        self._clock = clock
        self._network = network or SystemNetwork()
        self._tls = cache(tls)  # slow to create, and many hosts never need it
        self._lookups = anyio.Semaphore(_MAX_CONCURRENT_LOOKUPS)

    @asynccontextmanager
    async def connect(self, url: str) -> AsyncGenerator[ReceiverConnection, None]:
        """Yield a connection to a receiver while the block runs. It is dialled when the first event is sent."""
        target = parse_web_url(url)
        origin = target.origin

        async def dial_receiver() -> socket.socket:
            if not self._receivers.allows(origin.host, origin.port):
                raise receiver_not_allowed_error(str(origin))
            connection, address = await dial(
                Destination(origin.host, origin.port),
                self._receivers,
                self._network,
                lookups=self._lookups,
                seconds=_DIAL_TIMEOUT_S,
            )
            if origin.scheme == "http" and not self._receivers.grants_address(address, origin.port):
                connection.close()
                raise Denied("events are not sent to a public address in the clear", code="webhook.not_https")
            return connection

        client = HttpClient(origin, self._tls() if origin.scheme == "https" else None, dial=dial_receiver)
        try:
            yield ReceiverConnection(target, client, self._clock)
        finally:
            await client.aclose()
