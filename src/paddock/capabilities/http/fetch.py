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

from paddock.cage.network.dialing import Outside, SystemOutside
from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Fences, Handler
from paddock.capabilities.http.answer import answered
from paddock.capabilities.http.blanking import blanked, blanked_text, blanks
from paddock.capabilities.http.destination import WebDestinations
from paddock.capabilities.http.exchange import REPEATABLE, Exchange
from paddock.capabilities.http.headers import Mark, marked
from paddock.capabilities.http.hop import Hop, Reply
from paddock.capabilities.http.redirect import MOST_REDIRECTS, following
from paddock.capabilities.http.request import Wanted, wanted
from paddock.capabilities.http.retry import AGAIN, may_repeat, retry_after, wait_before
from paddock.capabilities.http.secret_headers import by_secret, filled
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, Denied, NotFound, PaddockError, Unreachable
from paddock.core.event import Publish
from paddock.core.events_capabilities import PluginFetched
from paddock.core.ids import PluginName, Tenant

AT_ONCE = 16  # of one plugin and tenant
AT_ONCE_IN_ALL = 256
_LOOKUPS = 4


@dataclass(slots=True)
class _UnderWay:
    lookups: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_LOOKUPS))
    count: int = 0


@dataclass(slots=True)
class _Sent:
    """What has come of one hop so far."""

    times: int = 0
    up: int = 0
    down: int = 0
    status: int | None = None
    error: str | None = "http.ended"  # whoever asked is gone, or the call for which it asked


class Http:
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
        publish_for: Callable[[Tenant], Publish],
        clock: Clock,
        random: Random,
        fences: Fences,
        *,
        outside: Outside | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        secret: Callable[[Asking, str], Awaitable[str | None]],
        bound: Callable[[Asking], Awaitable[Iterable[str]]],
    ) -> None:
        self._publish_for = publish_for
        self._clock = clock
        self._random = random
        self._fences = fences
        self._outside = outside or SystemOutside()
        self._tls = cache(tls)  # takes a moment, and most hosts never need it
        self._secret = secret
        self._bound = bound
        self._under_way: dict[tuple[Tenant, PluginName], _UnderWay] = {}

    def handlers(self) -> dict[str, Handler]:
        return {"http.fetch": self.fetch, "http.send": self.fetch}

    async def fetch(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a web service, whatever its status.

        Raises:
            CallerError: the request is wrong.
            Denied: it leads to where the plugin may not go, or changes something for no call.
            Busy: the plugin has too many under way.
            Unreachable: there is no answer, or none that can be given.
        """
        with anyio.CancelScope() as scope, asking.until_over(scope.cancel):
            return await self._fetched(asking, params)
        raise Unreachable("the call for which it was asked is over", code="http.ended")

    async def _fetched(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = wanted(params)
        if asking.call is None and not asked.first.safe:
            raise Denied(
                f"{asked.first.method} is sent for a call alone, and the request names none",
                code="http.no_call",
                hint="pass on the token of the call, as the SDK does; nothing is changed on the web between calls",
            )
        with self._room(asking) as lookups:
            may_send = partial(self._fences.require, asking)
            exchange = Exchange(WebDestinations(asking.granted), self._outside, self._tls, lookups, may_send)
            exchange.check(asked.first.place.origin)  # before a secret is fetched for it
            values = {
                name: await self._value(replace(asking, sends_to=asked.first.place.origin, sends_in=headers), name)
                for name, headers in by_secret(asked.secrets).items()
            }
            hidden = blanks({*values.values(), *await self._bound(asking)})
            until = anyio.current_time() + asked.seconds
            hop, attempts = replace(asked.first, headers=filled(asked.first.headers, asked.secrets, values)), 1
            for _ in range(MOST_REDIRECTS + 1):
                reply, times = await self._recorded(asking, exchange, asked, hop, until)
                attempts += times - 1  # where a redirect leads is not tried again, but asked for the first time
                then = following(hop, reply.status, reply.headers.get("location")) if asked.redirects else None
                if then is None:
                    return answered(blanked(reply, hidden), blanked_text(hop.place.url, hidden), attempts)
                hop = then
        raise Unreachable(f"more than {MOST_REDIRECTS} redirects", code="http.too_many_redirects")

    async def _value(self, asking: Asking, name: str) -> str:
        value = await self._secret(asking, name)
        if value is None:
            hint = f"paddock secret set {shlex.quote(name)}"
            raise NotFound(f"the secret {name} is not set", code="http.no_secret", hint=hint)
        return value

    @contextmanager
    def _room(self, asking: Asking) -> Generator[anyio.Semaphore, None, None]:
        key = (asking.tenant, asking.plugin)
        own = self._under_way.get(key) or _UnderWay()
        if own.count >= AT_ONCE or sum(one.count for one in self._under_way.values()) >= AT_ONCE_IN_ALL:
            raise Busy(f"{AT_ONCE} requests of a plugin may be under way at once", code="http.busy")
        own.count += 1
        self._under_way[key] = own
        try:
            yield own.lookups
        finally:
            own.count -= 1
            if not own.count:
                del self._under_way[key]

    async def _recorded(
        self, asking: Asking, exchange: Exchange, asked: Wanted, hop: Hop, until: float
    ) -> tuple[Reply, int]:
        """The answer to one hop, in time or not at all, and its entry in the ledger."""
        exchange.check(hop.place.origin)
        sent, begun = _Sent(), self._clock.monotonic()
        try:
            with anyio.move_on_after(until - anyio.current_time()):
                reply = await self._tried(asking, exchange, asked, hop, sent, until)
                sent.status, sent.error = reply.status, None
                return reply, sent.times
            raise Unreachable(f"{hop.place.origin} did not answer within {asked.seconds:g} s", code="http.timeout")
        except PaddockError as error:
            sent.error = error.error_code
            raise
        finally:
            # What never left has its record as a denial.
            if sent.times:
                self._publish_for(asking.tenant).publish(self._event(asking, hop, sent, begun))

    async def _tried(
        self, asking: Asking, exchange: Exchange, asked: Wanted, hop: Hop, sent: _Sent, until: float
    ) -> Reply:
        """The answer to one hop, sent as often as it may be while there is time."""
        headers = marked(hop.headers, hop.method, hop.place.url, hop.body, _mark(asking))
        again = asked.retries if may_repeat(hop) else 0
        if asking.call is None:
            asking.used_network()  # before the first byte: whoever is answered meanwhile has used it too
        while True:
            sent.times += 1
            sent.up += len(hop.body or b"")
            failure: Unreachable | None = None
            reply: Reply | None = None
            try:
                reply = await exchange.send(hop, headers, asked.most_bytes)
                sent.down += len(reply.body)
            except Denied:
                sent.times -= 1
                sent.up -= len(hop.body or b"")
                raise
            except Unreachable as error:
                if error.error_code not in REPEATABLE:
                    raise
                failure = error
            if reply is not None and reply.status not in AGAIN:
                return reply
            told = reply and retry_after(reply.headers.get("retry-after"), self._clock.now())
            wait = wait_before(sent.times, asked.backoff, self._chance(), told)
            if sent.times > again or anyio.current_time() + wait >= until:
                if reply is None:
                    raise failure or Unreachable("no answer", code="http.timeout")
                return reply
            await anyio.sleep(wait)

    def _chance(self) -> float:
        return int.from_bytes(self._random.bytes(2)) / 65536

    def _event(self, asking: Asking, hop: Hop, sent: _Sent, begun: float) -> PluginFetched:
        return PluginFetched(
            name=asking.plugin,
            method=hop.method,
            host=hop.place.origin.host,
            port=hop.place.origin.port,
            status=sent.status,
            bytes_up=sent.up,
            bytes_down=sent.down,
            duration_ms=round((self._clock.monotonic() - begun) * 1000, 3),
            times=sent.times,
            error_code=sent.error,
            request_id=asking.call.request if asking.call else None,
            call_id=asking.call_id,
        )


def _mark(asking: Asking) -> Mark:
    if asking.call is None:
        return Mark()
    key = asking.call.idempotency_key or asking.call_id
    # Others may have chosen the same key, and the service cannot tell tenants and callables of this host apart.
    own = None if key is None else "\0".join((asking.tenant, asking.plugin, asking.callable, key))
    return Mark(asking.call_id, asking.call.fence, own)
