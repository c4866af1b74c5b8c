"""The http family: a plugin without a network asks web services through the host.

http.fetch {request: {method, url, headers, body | json | base64, timeout, max_bytes, redirects}, retries, backoff}
    → {status, headers, body | base64, url, attempts}

Requests that change something are `http.send` to the rules, by whichever name they come: only calls that declare an
effect on the outside make them. Every place is checked, also those that redirects lead to, and each request is one
entry in the ledger. None is sent for a call that may not act any more, and none outlives its call.
"""

from __future__ import annotations

import shlex
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import anyio

from paddock.capabilities.dispatcher import FenceCheck, ServiceHandler
from paddock.capabilities.http.exchange import RETRYABLE_ERRORS, FetchExchange
from paddock.capabilities.http.headers import CallMark, add_call_headers
from paddock.capabilities.http.hop import MAX_REDIRECTS, FetchHop, FetchReply, follow_redirect
from paddock.capabilities.http.request import FetchRequest, read_fetch_request
from paddock.capabilities.http.response import fetch_result, redact_reply, redact_text, secret_spellings
from paddock.capabilities.http.retry import RETRYABLE_STATUSES, is_retryable, retry_delay
from paddock.capabilities.http.secret_headers import fill_secret_headers, headers_by_secret
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, Denied, NotFound, PaddockError, Unreachable
from paddock.core.events.capabilities import PluginFetched
from paddock.core.events.event import EventSink
from paddock.core.ids import PluginName, Tenant
from paddock.net.dial import OutboundNetwork, SystemNetwork
from paddock.net.http_client import parse_retry_after
from paddock.net.web_url import WebEgressPolicy

MAX_CONCURRENT = 16  # of one plugin and tenant
MAX_CONCURRENT_TOTAL = 256
_MAX_CONCURRENT_LOOKUPS = 4


@dataclass(slots=True)
class _ActiveFetches:
    lookups: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_MAX_CONCURRENT_LOOKUPS))
    count: int = 0


@dataclass(slots=True)
class _HopStats:
    """What has come of one hop so far."""

    times: int = 0
    up: int = 0
    down: int = 0
    status: int | None = None
    error: str | None = "http.ended"  # whoever asked is gone, or the call for which it asked


class HttpService:
    """Asks web services for plugins.

    Args:
        publish_for: Where a tenant's events are recorded.
        clock: Measures.
        random: Spreads repetitions in time.
        fences: Say whether a call may still act; asked before each request.
        outside: Looks names up and makes connections; the system's where none is given.
        tls: How servers are trusted; as the system does where it is not given.
        secret: The value of a secret that a plugin names, where it may have it; None where it is not set.
        bound: The values that a plugin is not to see in any answer.
    """

    def __init__(
        self,
        publish_for: Callable[[Tenant], EventSink],
        clock: Clock,
        random: Random,
        fences: FenceCheck,
        *,
        outside: OutboundNetwork | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        secret: Callable[[CapabilityRequest, str], Awaitable[str | None]],
        bound: Callable[[CapabilityRequest], Awaitable[Iterable[str]]],
    ) -> None:
        self._publish_for = publish_for
        self._clock = clock
        self._random = random
        self._fences = fences
        self._outside = outside or SystemNetwork()
        self._tls = cache(tls)  # takes a moment, and most hosts never need it
        self._secret = secret
        self._bound = bound
        self._active: dict[tuple[Tenant, PluginName], _ActiveFetches] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"http.fetch": self.fetch, "http.send": self.fetch}

    async def fetch(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a web service, whatever its status.

        Raises:
            CallerError: the request is wrong.
            Denied: it leads to where the plugin may not go, or changes something for no call.
            Busy: the plugin has too many under way.
            Unreachable: there is no answer, or none that can be given.
        """
        with anyio.CancelScope() as scope, asking.on_call_end(scope.cancel):
            return await self._fetch(asking, params)
        raise Unreachable("the call for which it was asked is over", code="http.ended")

    async def _fetch(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = read_fetch_request(params)
        if asking.call is None and not asked.first.safe:
            raise Denied(
                f"{asked.first.method} is sent for a call alone, and the request names none",
                code="http.no_call",
                hint="pass on the token of the call, as the SDK does; nothing is changed on the web between calls",
            )
        with self._concurrency_slot(asking) as lookups:
            may_send = partial(self._fences.require, asking)
            exchange = FetchExchange(WebEgressPolicy(asking.granted), self._outside, self._tls, lookups, may_send)
            exchange.check(asked.first.address.origin)  # before a secret is fetched for it
            values = {
                name: await self._secret_value(
                    replace(asking, sends_to=asked.first.address.origin, sends_in=headers), name
                )
                for name, headers in headers_by_secret(asked.secrets).items()
            }
            hidden = secret_spellings({*values.values(), *await self._bound(asking)})
            until = anyio.current_time() + asked.seconds
            hop, attempts = (
                replace(asked.first, headers=fill_secret_headers(asked.first.headers, asked.secrets, values)),
                1,
            )
            for _ in range(MAX_REDIRECTS + 1):
                reply, times = await self._send_recorded(asking, exchange, asked, hop, until)
                attempts += times - 1  # where a redirect leads is not tried again, but asked for the first time
                then = follow_redirect(hop, reply.status, reply.headers.get("location")) if asked.redirects else None
                if then is None:
                    return fetch_result(redact_reply(reply, hidden), redact_text(hop.address.url, hidden), attempts)
                hop = then
        raise Unreachable(f"more than {MAX_REDIRECTS} redirects", code="http.too_many_redirects")

    async def _secret_value(self, asking: CapabilityRequest, name: str) -> str:
        value = await self._secret(asking, name)
        if value is None:
            hint = f"paddock secret set {shlex.quote(name)}"
            raise NotFound(f"the secret {name} is not set", code="http.no_secret", hint=hint)
        return value

    @contextmanager
    def _concurrency_slot(self, asking: CapabilityRequest) -> Generator[anyio.Semaphore, None, None]:
        key = (asking.tenant, asking.plugin)
        own = self._active.get(key) or _ActiveFetches()
        if own.count >= MAX_CONCURRENT or sum(one.count for one in self._active.values()) >= MAX_CONCURRENT_TOTAL:
            raise Busy(f"{MAX_CONCURRENT} requests of a plugin may be under way at once", code="http.busy")
        own.count += 1
        self._active[key] = own
        try:
            yield own.lookups
        finally:
            own.count -= 1
            if not own.count:
                del self._active[key]

    async def _send_recorded(
        self, asking: CapabilityRequest, exchange: FetchExchange, asked: FetchRequest, hop: FetchHop, until: float
    ) -> tuple[FetchReply, int]:
        """The answer to one hop, in time or not at all, and its entry in the ledger."""
        exchange.check(hop.address.origin)
        sent, begun = _HopStats(), self._clock.monotonic()
        try:
            with anyio.move_on_after(until - anyio.current_time()):
                reply = await self._send_with_retries(asking, exchange, asked, hop, sent, until)
                sent.status, sent.error = reply.status, None
                return reply, sent.times
            raise Unreachable(f"{hop.address.origin} did not answer within {asked.seconds:g} s", code="http.timeout")
        except PaddockError as error:
            sent.error = error.error_code
            raise
        finally:
            # What never left has its record as a denial.
            if sent.times:
                self._publish_for(asking.tenant).publish(self._event(asking, hop, sent, begun))

    async def _send_with_retries(
        self,
        asking: CapabilityRequest,
        exchange: FetchExchange,
        asked: FetchRequest,
        hop: FetchHop,
        sent: _HopStats,
        until: float,
    ) -> FetchReply:
        """The answer to one hop, sent as often as it may be while there is time."""
        headers = add_call_headers(hop.headers, hop.method, hop.address.url, hop.body, _call_mark(asking))
        again = asked.retries if is_retryable(hop) else 0
        if asking.call is None:
            asking.used_network()  # before the first byte: whoever is answered meanwhile has used it too
        while True:
            sent.times += 1
            sent.up += len(hop.body or b"")
            failure: Unreachable | None = None
            reply: FetchReply | None = None
            try:
                reply = await exchange.send(hop, headers, asked.max_bytes)
                sent.down += len(reply.body)
            except Denied:
                sent.times -= 1
                sent.up -= len(hop.body or b"")
                raise
            except Unreachable as error:
                if error.error_code not in RETRYABLE_ERRORS:
                    raise
                failure = error
            if reply is not None and reply.status not in RETRYABLE_STATUSES:
                return reply
            told = reply and parse_retry_after(reply.headers.get("retry-after"), self._clock.now())
            wait = retry_delay(sent.times, asked.backoff, self._jitter(), told)
            if sent.times > again or anyio.current_time() + wait >= until:
                if reply is None:
                    raise failure or Unreachable("no answer", code="http.timeout")
                return reply
            await anyio.sleep(wait)

    def _jitter(self) -> float:
        return int.from_bytes(self._random.bytes(2)) / 65536

    def _event(self, asking: CapabilityRequest, hop: FetchHop, sent: _HopStats, begun: float) -> PluginFetched:
        return PluginFetched(
            name=asking.plugin,
            method=hop.method,
            host=hop.address.origin.host,
            port=hop.address.origin.port,
            status=sent.status,
            bytes_up=sent.up,
            bytes_down=sent.down,
            duration_ms=round((self._clock.monotonic() - begun) * 1000, 3),
            times=sent.times,
            error_code=sent.error,
            request_id=asking.call.request if asking.call else None,
            call_id=asking.call_id,
        )


def _call_mark(asking: CapabilityRequest) -> CallMark:
    if asking.call is None:
        return CallMark()
    key = asking.call.idempotency_key or asking.call_id
    # Others may have chosen the same key, and the service cannot tell tenants and callables of this host apart.
    own = None if key is None else "\0".join((asking.tenant, asking.plugin, asking.callable, key))
    return CallMark(asking.call_id, asking.call.fence, own)
