"""The http service: a plugin without network access reaches web services through the host.

http.fetch {request: {method, url, headers, body | json | base64, timeout, max_bytes, redirects}, retries, backoff}
    → {status, headers, body | base64, url, attempts}

For the policy, a request that changes something is `http.send`, under whichever name it comes: only calls that declare
an external effect may make it. Every origin is checked, also those of redirects, and each hop is one entry in the
ledger. No request is sent for a call that may not act any more, and none outlives its call.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from paddock.capabilities.dispatcher import FenceCheck, ServiceHandler
from paddock.capabilities.http.exchange import RETRYABLE_ERRORS, FetchExchange
from paddock.capabilities.http.headers import CallMark, add_call_headers
from paddock.capabilities.http.hop import MAX_REDIRECTS, FetchHop, FetchReply, follow_redirect
from paddock.capabilities.http.request import FetchRequest, read_fetch_request
from paddock.capabilities.http.response import fetch_result, redact_reply, redact_text, secret_spellings
from paddock.capabilities.http.retry import RETRYABLE_STATUSES, is_retryable, retry_delay
from paddock.capabilities.http.secret_headers import fill_secret_headers, headers_by_secret
from paddock.capabilities.request import CapabilityRequest
from paddock.core.action import Action
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, Denied, NotFound, PaddockError, Unreachable
from paddock.core.events.capabilities import PluginFetched
from paddock.core.events.event import EventSink
from paddock.core.ids import PluginName, Tenant
from paddock.net.dial import OutboundNetwork, SystemNetwork
from paddock.net.http_client import parse_retry_after
from paddock.net.web_url import WebEgressPolicy

MAX_CONCURRENT = 16  # per plugin and tenant
MAX_CONCURRENT_TOTAL = 256
_MAX_CONCURRENT_LOOKUPS = 4


class _ActiveFetches(Struct):
    lookups: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_MAX_CONCURRENT_LOOKUPS))
    count: int = 0


class _HopStats(Struct):
    """The progress and result of one hop."""

    attempts: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    status: int | None = None
    error: str | None = "http.ended"  # the plugin, or the call that the request was for, is gone


class HttpService:
    """Makes web requests for plugins.

    Args:
        publish_for: Returns the event sink of a tenant.
        clock: Measures durations.
        random: Adds jitter to retries.
        fences: Checks before each request whether its call may still act.
        outside: Resolves names and opens connections; the system's by default.
        tls: Provides the TLS context; the system's by default.
        secret: Returns the value of a secret that the plugin may use; None if it is not set.
        bound: Returns the values that the plugin must not see in any response.
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
        self._tls = cache(tls)  # slow to build, and most hosts never need it
        self._secret = secret
        self._bound = bound
        self._active: dict[tuple[Tenant, PluginName], _ActiveFetches] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"http.fetch": self.fetch, "http.send": self.fetch}

    async def fetch(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a web service's response, whatever its status.

        Raises:
            CallerError: the request is invalid.
            Denied: the plugin may not reach the destination, or the request changes something without a call.
            Busy: the plugin has too many requests in flight.
            Unreachable: there is no response, or none that can be returned.
        """
        with anyio.CancelScope() as scope, request.on_call_end(scope.cancel):
            return await self._fetch(request, params)
        raise Unreachable("the call for which it was asked is over", code="http.ended")

    async def _fetch(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        fetch = read_fetch_request(params)
        if request.call is None and not fetch.first.safe:
            raise Denied(
                f"{fetch.first.method} is sent for a call alone, and the request names none",
                code="http.no_call",
                hint="pass on the token of the call, as the SDK does; nothing is changed on the web between calls",
            )
        with self._concurrency_slot(request) as lookups:
            may_send = partial(self._fences.require, request)
            exchange = FetchExchange(
                WebEgressPolicy(request.granted), self._outside, self._tls, lookups, request.grant_action, may_send
            )
            exchange.check(fetch.first.address.origin)  # before its secrets are read
            values = {
                name: await self._secret_value(
                    replace(request, sends_to=fetch.first.address.origin, sends_in=headers), name
                )
                for name, headers in headers_by_secret(fetch.secrets).items()
            }
            hidden = secret_spellings({*values.values(), *await self._bound(request)})
            deadline = anyio.current_time() + fetch.timeout_s
            hop, attempts = (
                replace(fetch.first, headers=fill_secret_headers(fetch.first.headers, fetch.secrets, values)),
                1,
            )
            for _ in range(MAX_REDIRECTS + 1):
                reply, sent_times = await self._send_recorded(request, exchange, fetch, hop, deadline)
                attempts += sent_times - 1  # the first request to a redirect's target is not a retry
                next_hop = (
                    follow_redirect(hop, reply.status, reply.headers.get("location")) if fetch.redirects else None
                )
                if next_hop is None:
                    return fetch_result(redact_reply(reply, hidden), redact_text(hop.address.url, hidden), attempts)
                hop = next_hop
        raise Unreachable(f"more than {MAX_REDIRECTS} redirects", code="http.too_many_redirects")

    async def _secret_value(self, request: CapabilityRequest, name: str) -> str:
        value = await self._secret(request, name)
        if value is None:
            action = Action.of("secret.set", name=name, tenant=request.tenant)
            raise NotFound(f"the secret {name} is not set", code="http.no_secret", action=action)
        return value

    @contextmanager
    def _concurrency_slot(self, request: CapabilityRequest) -> Generator[anyio.Semaphore, None, None]:
        key = (request.tenant, request.plugin)
        active = self._active.get(key) or _ActiveFetches()
        if (
            active.count >= MAX_CONCURRENT
            or sum(other.count for other in self._active.values()) >= MAX_CONCURRENT_TOTAL
        ):
            raise Busy(f"{MAX_CONCURRENT} requests of a plugin may be under way at once", code="http.busy")
        active.count += 1
        self._active[key] = active
        try:
            yield active.lookups
        finally:
            active.count -= 1
            if not active.count:
                del self._active[key]

    async def _send_recorded(
        self, request: CapabilityRequest, exchange: FetchExchange, fetch: FetchRequest, hop: FetchHop, deadline: float
    ) -> tuple[FetchReply, int]:
        """Send one hop before the deadline, and record it in the ledger."""
        exchange.check(hop.address.origin)
        stats, started = _HopStats(), self._clock.monotonic()
        try:
            with anyio.move_on_after(deadline - anyio.current_time()):
                reply = await self._send_with_retries(request, exchange, fetch, hop, stats, deadline)
                stats.status, stats.error = reply.status, None
                return reply, stats.attempts
            raise Unreachable(f"{hop.address.origin} did not answer within {fetch.timeout_s:g} s", code="http.timeout")
        except PaddockError as error:
            stats.error = error.error_code
            raise
        finally:
            # A request that was never sent is recorded as a denial.
            if stats.attempts:
                self._publish_for(request.tenant).publish(self._event(request, hop, stats, started))

    async def _send_with_retries(
        self,
        request: CapabilityRequest,
        exchange: FetchExchange,
        fetch: FetchRequest,
        hop: FetchHop,
        stats: _HopStats,
        deadline: float,
    ) -> FetchReply:
        """Send one hop, with retries while there is time."""
        headers = add_call_headers(hop.headers, hop.method, hop.address.url, hop.body, _call_mark(request))
        retries = fetch.retries if is_retryable(hop) else 0
        if request.call is None:
            request.used_network()  # before the first byte: calls that end meanwhile have used the network too
        while True:
            stats.attempts += 1
            stats.bytes_up += len(hop.body or b"")
            failure: Unreachable | None = None
            reply: FetchReply | None = None
            try:
                reply = await exchange.send(hop, headers, fetch.max_bytes)
                stats.bytes_down += len(reply.body)
            except Denied:
                stats.attempts -= 1
                stats.bytes_up -= len(hop.body or b"")
                raise
            except Unreachable as error:
                if error.error_code not in RETRYABLE_ERRORS:
                    raise
                failure = error
            if reply is not None and reply.status not in RETRYABLE_STATUSES:
                return reply
            retry_after = reply and parse_retry_after(reply.headers.get("retry-after"), self._clock.now())
            wait = retry_delay(stats.attempts, fetch.backoff, self._jitter(), retry_after)
            if stats.attempts > retries or anyio.current_time() + wait >= deadline:
                if reply is None:
                    raise failure or Unreachable("no answer", code="http.timeout")
                return reply
            await anyio.sleep(wait)

    def _jitter(self) -> float:
        return int.from_bytes(self._random.bytes(2)) / 65536

    def _event(self, request: CapabilityRequest, hop: FetchHop, stats: _HopStats, started: float) -> PluginFetched:
        return PluginFetched(
            name=request.plugin,
            method=hop.method,
            host=hop.address.origin.host,
            port=hop.address.origin.port,
            status=stats.status,
            bytes_up=stats.bytes_up,
            bytes_down=stats.bytes_down,
            duration_ms=round((self._clock.monotonic() - started) * 1000, 3),
            times=stats.attempts,
            error_code=stats.error,
            request_id=request.call.request if request.call else None,
            call_id=request.call_id,
        )


def _call_mark(request: CapabilityRequest) -> CallMark:
    if request.call is None:
        return CallMark()
    key = request.call.idempotency_key or request.call_id
    # Others may have chosen the same key, and the recipient cannot tell this host's tenants and callables apart.
    scoped_key = None if key is None else "\0".join((request.tenant, request.plugin, request.callable, key))
    return CallMark(request.call_id, request.call.fence, scoped_key)
