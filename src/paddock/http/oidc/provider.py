"""The identity provider as it is reached: what it says of itself, its keys, and a code's worth of tokens.

It is asked over the host's own small HTTP client: nothing is followed elsewhere, and every answer is bounded in size
and time. What it publishes is kept for an hour. A key that is not known makes it be asked again, though not for
everybody who brings one: whoever makes tokens up must not make us ask for each of them.
"""

from __future__ import annotations

import logging
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import quote_plus, urlencode

import anyio
import orjson

from paddock.config.oidc_settings import check_issuer
from paddock.core.clock import Clock
from paddock.core.errors import Denied, Unreachable
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.http.oidc.tokens import ALGORITHMS, BadToken, Head, KeySet, UnknownKey, claims_of, head_of, key_set
from paddock.rpc.http_client import HttpClient, HttpLost, TooLarge, split_url

FRESH: Final = 3600.0
"""Seconds after which what it published is looked at again."""
STALE: Final = 86_400.0
"""Seconds for which it counts all the same while the provider does not answer."""
AGAIN: Final = 30.0
"""Seconds between two looks."""

_SECONDS = 10.0
_FAILED_FOR = 5.0
_LARGEST = 512 * 1024
_WELL_KNOWN = "/.well-known/openid-configuration"

T = TypeVar("T")
log = logging.getLogger("paddock.oidc")


@dataclass(frozen=True, slots=True)
class Published:
    """What a provider says of itself, as far as we need it."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    secret_in_header: bool
    names_itself: bool  # in what it sends people back with (RFC 9207)


class Provider:
    """One identity provider.

    Args:
        issuer: What it calls itself, exactly.
        clock: How old what it said is.
        tls: How it is trusted; as the system does where it is not given.
    """

    def __init__(
        self, issuer: str, clock: Clock, tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        self.issuer = issuer
        self._tls = cache(tls)
        self._about = _Kept(self._discovered, clock)
        self._keys = _Kept(self._published_keys, clock)

    async def about(self) -> Published:
        """Where it wants to be asked what.

        Raises:
            Unreachable: it does not say, or not what we can use.
        """
        return await self._about.get()

    async def claims(self, token: str) -> tuple[Head, dict[str, Any]]:
        """What a token of this provider claims; whether it is for us is for `tokens.py` to say.

        Raises:
            BadToken: it is not this provider's.
            Unreachable: the provider's keys cannot be had.
        """
        head = head_of(token)
        keys = await self._keys.get()
        try:
            return head, claims_of(token, head, keys)
        except UnknownKey:
            newer = await self._keys.newer(keys)
            if newer is keys:
                raise
            return head, claims_of(token, head, newer)

    async def tokens(
        self, code: str, verifier: str, *, redirect_uri: str, client_id: str, secret: Secret | None
    ) -> tuple[str, Secret]:
        """The ID token and the access token that a code is good for, once.

        Raises:
            Denied: the provider does not take the code.
            Unreachable: it gives no answer that we can use.
        """
        about = await self.about()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"code_verifier": verifier, "client_id": client_id}
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
        if secret is not None and about.secret_in_header:
            both = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
            headers.append(("Authorization", f"Basic {b64encode(both.encode()).decode()}"))
        elif secret is not None:
            form["client_secret"] = secret.reveal()
        status, said = await self._ask("POST", about.token_endpoint, headers, urlencode(form).encode())
        token, access = said.get("id_token"), said.get("access_token")
        if status == 200 and isinstance(token, str):
            return token, Secret(access if isinstance(access, str) else "")
        reason = said.get("error")
        told = printable(reason, 60) if isinstance(reason, str) else f"status {status}"
        if status in (400, 401, 403):
            raise Denied(
                f"the provider does not take what you came back with ({told})",
                code="sign_in.code_refused",
                hint="sign in again; where that happens every time, look at oidc.client_id and oidc.client_secret",
            )
        raise self._unusable(f"gave no ID token ({told})")

    async def more_claims(self, access: Secret, subject: str) -> dict[str, Any]:
        """What it says of somebody beside their ID token; some say nothing but the subject there.

        Raises:
            BadToken: it speaks of somebody else.
            Unreachable: it gives no answer that we can use.
        """
        endpoint = (await self.about()).userinfo_endpoint
        if endpoint is None or not access or not access.reveal().isascii() or not access.reveal().isprintable():
            return {}
        headers = [("Authorization", f"Bearer {access.reveal()}"), ("Accept", "application/json")]
        status, said = await self._ask("GET", endpoint, headers)
        if status != 200:
            raise self._unusable(f"says nothing more of somebody (status {status})")
        if said.get("sub") != subject:
            raise BadToken("subject")
        return said

    async def _discovered(self) -> Published:
        status, said = await self._ask("GET", self.issuer.rstrip("/") + _WELL_KNOWN)
        if status != 200 or said.get("issuer") != self.issuer:
            found = (
                f"it calls itself {printable(str(said.get('issuer')), 100)}" if status == 200 else f"status {status}"
            )
            raise self._unusable(f"does not describe itself under that name ({found})")
        offered = said.get("id_token_signing_alg_values_supported")
        if isinstance(offered, list) and not ALGORITHMS.intersection(map(str, cast("list[object]", offered))):
            raise self._unusable("signs with nothing that we take")
        if not _mentions(said, "code_challenge_methods_supported", "S256", unsaid=True):
            raise self._unusable("does not know PKCE with S256")
        return Published(
            *(self._address(said, name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")),
            userinfo_endpoint=self._address(said, "userinfo_endpoint") if said.get("userinfo_endpoint") else None,
            # What counts where it says nothing, by the standard.
            secret_in_header=_mentions(
                said, "token_endpoint_auth_methods_supported", "client_secret_basic", unsaid=True
            ),
            names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _published_keys(self) -> KeySet:
        status, said = await self._ask("GET", (await self.about()).jwks_uri)
        try:
            return key_set(said if status == 200 else None)
        except ValueError:
            raise self._unusable(f"publishes no keys (status {status})") from None

    def _address(self, said: Mapping[str, Any], name: str) -> str:
        address = said.get(name)
        # As safe as the issuer itself, or whoever sits between could say what they like.
        if not isinstance(address, str) or check_issuer(address.partition("?")[0]) is not None:
            raise self._unusable(f"has no {name} over https")
        return address

    async def _ask(
        self, method: str, url: str, headers: list[tuple[str, str]] | None = None, body: bytes | None = None
    ) -> tuple[int, dict[str, Any]]:
        try:
            origin, target = split_url(url)
        except ValueError as error:
            raise self._unusable(f"names an address that {error}") from None
        client = HttpClient(origin, self._tls() if origin.scheme == "https" else None)
        try:
            with anyio.fail_after(_SECONDS):
                async with client.request(method, target, headers or [("Accept", "application/json")], body) as answer:
                    raw = await answer.body(_LARGEST)
                    return answer.status, _object(raw)
        except TimeoutError:
            raise self._unusable(f"did not answer within {_SECONDS:g} s") from None
        except (HttpLost, TooLarge) as error:
            raise self._unusable(f"cannot be asked: {error}") from None
        finally:
            client.close()

    def _unusable(self, why: str) -> Unreachable:
        return Unreachable(
            f"the identity provider {printable(self.issuer)} {why}",
            code="oidc.unusable",
            hint="try again; where it stays so, look at oidc.issuer",
        )


class _Kept(Generic[T]):
    """Something that was fetched: kept while it is fresh, and for longer while it cannot be fetched again."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = anyio.Lock()
        self._value: T | None = None
        self._failure: Unreachable | None = None
        self._fetched = self._asked = float("-inf")

    async def get(self) -> T:
        value, age = self._value, self._clock.monotonic() - self._fetched
        # While one looks, which takes long where the provider hangs, what it said before is good for all others.
        if value is not None and (age < FRESH or (age < STALE and self._lock.locked())):
            return value
        async with self._lock:
            return await self._looked(FRESH)

    async def newer(self, than: T) -> T:
        """Another one, unless it was looked for a moment ago."""
        async with self._lock:
            return self._value if self._value is not None and self._value is not than else await self._looked(AGAIN)

    async def _looked(self, after: float) -> T:
        now, value = self._clock.monotonic(), self._value
        if value is not None and (now - self._fetched < after or now - self._asked < AGAIN):
            return value
        if self._failure is not None and now - self._asked < _FAILED_FOR:
            raise self._failure
        self._asked, self._failure = now, None
        try:
            self._value = await self._fetch()
        except Unreachable as error:
            if value is None or now - self._fetched >= STALE:
                self._failure = error  # whoever waits in line hears it too, and does not try in turn
                raise
            log.warning("%s; what it said before counts", error.message)
            return value
        self._fetched = now
        return self._value


def _mentions(said: Mapping[str, Any], name: str, word: str, *, unsaid: bool) -> bool:
    listed = said.get(name)
    return word in cast("list[object]", listed) if isinstance(listed, list) else unsaid


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
