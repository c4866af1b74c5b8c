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
from paddock.net.http_client import HttpClient, HttpConnectionLost, ResponseTooLarge, split_url
from paddock.web.oidc.tokens import (
    ALGORITHMS,
    InvalidToken,
    JsonWebKeySet,
    TokenHeader,
    UnknownSigningKey,
    parse_key_set,
    parse_token_header,
    verify_signature,
)

FRESH_S: Final = 3600.0
"""Seconds after which what it published is looked at again."""
MAX_STALE_S: Final = 86_400.0
"""Seconds for which it counts all the same while the provider does not answer."""
REFETCH_INTERVAL_S: Final = 30.0
"""Seconds between two looks."""

_REQUEST_TIMEOUT_S = 10.0
_FAILURE_CACHE_S = 5.0
_MAX_RESPONSE_BYTES = 512 * 1024
_WELL_KNOWN = "/.well-known/openid-configuration"

T = TypeVar("T")
log = logging.getLogger("paddock.oidc")


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """What a provider says of itself, as far as we need it."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    client_secret_basic: bool
    sends_iss_parameter: bool  # in what it sends people back with (RFC 9207)


class IdentityProvider:
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
        self._metadata_cache = _RefreshingCache(self._fetch_metadata, clock)
        self._keys_cache = _RefreshingCache(self._fetch_keys, clock)

    async def metadata(self) -> ProviderMetadata:
        """Where it wants to be asked what.

        Raises:
            Unreachable: it does not say, or not what we can use.
        """
        return await self._metadata_cache.get()

    async def verify_token(self, token: str) -> tuple[TokenHeader, dict[str, Any]]:
        """What a token of this provider claims; whether it is for us is for `tokens.py` to say.

        Raises:
            BadToken: it is not this provider's.
            Unreachable: the provider's keys cannot be had.
        """
        head = parse_token_header(token)
        keys = await self._keys_cache.get()
        try:
            return head, verify_signature(token, head, keys)
        except UnknownSigningKey:
            newer = await self._keys_cache.refresh(keys)
            if newer is keys:
                raise
            return head, verify_signature(token, head, newer)

    async def exchange_code(
        self, code: str, verifier: str, *, redirect_uri: str, client_id: str, secret: Secret | None
    ) -> tuple[str, Secret]:
        """The ID token and the access token that a code is good for, once.

        Raises:
            Denied: the provider does not take the code.
            Unreachable: it gives no answer that we can use.
        """
        about = await self.metadata()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"code_verifier": verifier, "client_id": client_id}
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
        if secret is not None and about.client_secret_basic:
            both = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
            headers.append(("Authorization", f"Basic {b64encode(both.encode()).decode()}"))
        elif secret is not None:
            form["client_secret"] = secret.reveal()
        status, said = await self._request("POST", about.token_endpoint, headers, urlencode(form).encode())
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
        raise self._provider_error(f"gave no ID token ({told})")

    async def fetch_userinfo(self, access: Secret, subject: str) -> dict[str, Any]:
        """What it says of somebody beside their ID token; some say nothing but the subject there.

        Raises:
            BadToken: it speaks of somebody else.
            Unreachable: it gives no answer that we can use.
        """
        endpoint = (await self.metadata()).userinfo_endpoint
        if endpoint is None or not access or not access.reveal().isascii() or not access.reveal().isprintable():
            return {}
        headers = [("Authorization", f"Bearer {access.reveal()}"), ("Accept", "application/json")]
        status, said = await self._request("GET", endpoint, headers)
        if status != 200:
            raise self._provider_error(f"says nothing more of somebody (status {status})")
        if said.get("sub") != subject:
            raise InvalidToken("subject")
        return said

    async def _fetch_metadata(self) -> ProviderMetadata:
        status, said = await self._request("GET", self.issuer.rstrip("/") + _WELL_KNOWN)
        if status != 200 or said.get("issuer") != self.issuer:
            found = (
                f"it calls itself {printable(str(said.get('issuer')), 100)}" if status == 200 else f"status {status}"
            )
            raise self._provider_error(f"does not describe itself under that name ({found})")
        offered = said.get("id_token_signing_alg_values_supported")
        if isinstance(offered, list) and not ALGORITHMS.intersection(map(str, cast("list[object]", offered))):
            raise self._provider_error("signs with nothing that we take")
        if not _lists_value(said, "code_challenge_methods_supported", "S256", unsaid=True):
            raise self._provider_error("does not know PKCE with S256")
        return ProviderMetadata(
            *(self._endpoint_url(said, name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")),
            userinfo_endpoint=self._endpoint_url(said, "userinfo_endpoint") if said.get("userinfo_endpoint") else None,
            # What counts where it says nothing, by the standard.
            client_secret_basic=_lists_value(
                said, "token_endpoint_auth_methods_supported", "client_secret_basic", unsaid=True
            ),
            sends_iss_parameter=said.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _fetch_keys(self) -> JsonWebKeySet:
        status, said = await self._request("GET", (await self.metadata()).jwks_uri)
        try:
            return parse_key_set(said if status == 200 else None)
        except ValueError:
            raise self._provider_error(f"publishes no keys (status {status})") from None

    def _endpoint_url(self, said: Mapping[str, Any], name: str) -> str:
        address = said.get(name)
        # As safe as the issuer itself, or whoever sits between could say what they like.
        if not isinstance(address, str) or check_issuer(address.partition("?")[0]) is not None:
            raise self._provider_error(f"has no {name} over https")
        return address

    async def _request(
        self, method: str, url: str, headers: list[tuple[str, str]] | None = None, body: bytes | None = None
    ) -> tuple[int, dict[str, Any]]:
        try:
            origin, target = split_url(url)
        except ValueError as error:
            raise self._provider_error(f"names an address that {error}") from None
        client = HttpClient(origin, self._tls() if origin.scheme == "https" else None)
        try:
            with anyio.fail_after(_REQUEST_TIMEOUT_S):
                async with client.request(method, target, headers or [("Accept", "application/json")], body) as answer:
                    raw = await answer.read_body(_MAX_RESPONSE_BYTES)
                    return answer.status, _parse_object(raw)
        except TimeoutError:
            raise self._provider_error(f"did not answer within {_REQUEST_TIMEOUT_S:g} s") from None
        except (HttpConnectionLost, ResponseTooLarge) as error:
            raise self._provider_error(f"cannot be asked: {error}") from None
        finally:
            client.close()

    def _provider_error(self, why: str) -> Unreachable:
        return Unreachable(
            f"the identity provider {printable(self.issuer)} {why}",
            code="oidc.unusable",
            hint="try again; where it stays so, look at oidc.issuer",
        )


class _RefreshingCache(Generic[T]):
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
        if value is not None and (age < FRESH_S or (age < MAX_STALE_S and self._lock.locked())):
            return value
        async with self._lock:
            return await self._fetch_if_older(FRESH_S)

    async def refresh(self, than: T) -> T:
        """Another one, unless it was looked for a moment ago."""
        async with self._lock:
            return (
                self._value
                if self._value is not None and self._value is not than
                else await self._fetch_if_older(REFETCH_INTERVAL_S)
            )

    async def _fetch_if_older(self, after: float) -> T:
        now, value = self._clock.monotonic(), self._value
        if value is not None and (now - self._fetched < after or now - self._asked < REFETCH_INTERVAL_S):
            return value
        if self._failure is not None and now - self._asked < _FAILURE_CACHE_S:
            raise self._failure
        self._asked, self._failure = now, None
        try:
            self._value = await self._fetch()
        except Unreachable as error:
            if value is None or now - self._fetched >= MAX_STALE_S:
                self._failure = error  # whoever waits in line hears it too, and does not try in turn
                raise
            log.warning("%s; what it said before counts", error.message)
            return value
        self._fetched = now
        return self._value


def _lists_value(said: Mapping[str, Any], name: str, word: str, *, unsaid: bool) -> bool:
    listed = said.get(name)
    return word in cast("list[object]", listed) if isinstance(listed, list) else unsaid


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
