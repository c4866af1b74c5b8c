"""Client of the identity provider: discovery metadata, signing keys, code exchange and userinfo.

Requests use the host's own HTTP client: redirects are not followed, and every response is bounded in size and time.
Metadata and keys are cached for an hour. An unknown key id triggers a new fetch, but at a limited rate: forged tokens
must not cause one request each.
"""

from __future__ import annotations

import logging
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import quote_plus, urlencode

import anyio
import orjson
from msgspec import Struct

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
"""Age after which cached metadata and keys are fetched again."""
MAX_STALE_S: Final = 86_400.0
"""Age up to which cached values are used while the provider does not answer."""
REFETCH_INTERVAL_S: Final = 30.0
"""Minimum time between two fetches."""

_REQUEST_TIMEOUT_S = 10.0
_FAILURE_CACHE_S = 5.0
_MAX_RESPONSE_BYTES = 512 * 1024
_WELL_KNOWN = "/.well-known/openid-configuration"

T = TypeVar("T")
log = logging.getLogger("paddock.oidc")


class ProviderMetadata(Struct, frozen=True):
    """The fields we use of a provider's discovery document."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    client_secret_basic: bool
    sends_iss_parameter: bool  # in the authorization response (RFC 9207)


class IdentityProvider:
    """An OpenID Connect provider.

    Args:
        issuer: Its issuer identifier, compared exactly.
        clock: For the age of cached values.
        tls: Creates the TLS context; trusts the system's certificates by default.
    """

    def __init__(
        self, issuer: str, clock: Clock, tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        self.issuer = issuer
        self._tls = cache(tls)
        self._metadata_cache = _RefreshingCache(self._fetch_metadata, clock)
        self._keys_cache = _RefreshingCache(self._fetch_keys, clock)

    async def metadata(self) -> ProviderMetadata:
        """Return the discovery metadata.

        Raises:
            Unreachable: it cannot be fetched, or lacks something that we need.
        """
        return await self._metadata_cache.get()

    async def verify_token(self, token: str) -> tuple[TokenHeader, dict[str, Any]]:
        """Verify a token's signature and return its header and claims; `tokens.py` checks audience and times.

        Raises:
            InvalidToken: it is not signed by this provider.
            Unreachable: the provider's keys cannot be fetched.
        """
        header = parse_token_header(token)
        keys = await self._keys_cache.get()
        try:
            return header, verify_signature(token, header, keys)
        except UnknownSigningKey:
            refreshed = await self._keys_cache.refresh(keys)
            if refreshed is keys:
                raise
            return header, verify_signature(token, header, refreshed)

    async def exchange_code(
        self, code: str, verifier: str, *, redirect_uri: str, client_id: str, secret: Secret | None
    ) -> tuple[str, Secret]:
        """Exchange an authorization code for the ID token and the access token.

        Raises:
            Denied: the provider rejects the code.
            Unreachable: the provider's response is unusable.
        """
        metadata = await self.metadata()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"code_verifier": verifier, "client_id": client_id}
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
        if secret is not None and metadata.client_secret_basic:
            credentials = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
            headers.append(("Authorization", f"Basic {b64encode(credentials.encode()).decode()}"))
        elif secret is not None:
            form["client_secret"] = secret.reveal()
        status, response = await self._request("POST", metadata.token_endpoint, headers, urlencode(form).encode())
        id_token, access_token = response.get("id_token"), response.get("access_token")
        if status == 200 and isinstance(id_token, str):
            return id_token, Secret(access_token if isinstance(access_token, str) else "")
        reason = response.get("error")
        reason_text = printable(reason, 60) if isinstance(reason, str) else f"status {status}"
        if status in (400, 401, 403):
            raise Denied(
                f"the provider does not take what you came back with ({reason_text})",
                code="sign_in.code_refused",
                hint="sign in again; where that happens every time, look at oidc.client_id and oidc.client_secret",
            )
        raise self._provider_error(f"gave no ID token ({reason_text})")

    async def fetch_userinfo(self, access_token: Secret, subject: str) -> dict[str, Any]:
        """Return the claims of the userinfo endpoint, empty if there is none; some providers return only the subject.

        Raises:
            InvalidToken: the claims are of another subject.
            Unreachable: the provider's response is unusable.
        """
        endpoint = (await self.metadata()).userinfo_endpoint
        if (
            endpoint is None
            or not access_token
            or not access_token.reveal().isascii()
            or not access_token.reveal().isprintable()
        ):
            return {}
        headers = [("Authorization", f"Bearer {access_token.reveal()}"), ("Accept", "application/json")]
        status, claims = await self._request("GET", endpoint, headers)
        if status != 200:
            raise self._provider_error(f"does not return the user's profile (status {status})")
        if claims.get("sub") != subject:
            raise InvalidToken("subject")
        return claims

    async def _fetch_metadata(self) -> ProviderMetadata:
        status, document = await self._request("GET", self.issuer.rstrip("/") + _WELL_KNOWN)
        if status != 200 or document.get("issuer") != self.issuer:
            difference = (
                f"it calls itself {printable(str(document.get('issuer')), 100)}"
                if status == 200
                else f"status {status}"
            )
            raise self._provider_error(f"does not describe itself under that name ({difference})")
        algorithms = document.get("id_token_signing_alg_values_supported")
        if isinstance(algorithms, list) and not ALGORITHMS.intersection(map(str, cast("list[object]", algorithms))):
            raise self._provider_error("signs with nothing that we take")
        if not _lists_value(document, "code_challenge_methods_supported", "S256", default=True):
            raise self._provider_error("does not know PKCE with S256")
        return ProviderMetadata(
            *(self._endpoint_url(document, name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")),
            userinfo_endpoint=self._endpoint_url(document, "userinfo_endpoint")
            if document.get("userinfo_endpoint")
            else None,
            # The default by the standard.
            client_secret_basic=_lists_value(
                document, "token_endpoint_auth_methods_supported", "client_secret_basic", default=True
            ),
            sends_iss_parameter=document.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _fetch_keys(self) -> JsonWebKeySet:
        status, document = await self._request("GET", (await self.metadata()).jwks_uri)
        try:
            return parse_key_set(document if status == 200 else None)
        except ValueError:
            raise self._provider_error(f"publishes no keys (status {status})") from None

    def _endpoint_url(self, document: Mapping[str, Any], name: str) -> str:
        url = document.get(name)
        # Held to the same rules as the issuer: over plain HTTP an attacker in between could forge the responses.
        if not isinstance(url, str) or check_issuer(url.partition("?")[0]) is not None:
            raise self._provider_error(f"has no {name} over https")
        return url

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
                async with client.request(
                    method, target, headers or [("Accept", "application/json")], body
                ) as response:
                    raw = await response.read_body(_MAX_RESPONSE_BYTES)
                    return response.status, _parse_object(raw)
        except TimeoutError:
            raise self._provider_error(f"did not answer within {_REQUEST_TIMEOUT_S:g} s") from None
        except (HttpConnectionLost, ResponseTooLarge) as error:
            raise self._provider_error(f"cannot be asked: {error}") from None
        finally:
            client.close()

    def _provider_error(self, reason: str) -> Unreachable:
        return Unreachable(
            f"the identity provider {printable(self.issuer)} {reason}",
            code="oidc.unusable",
            hint="try again; where it stays so, look at oidc.issuer",
        )


class _RefreshingCache(Generic[T]):
    """Caches a fetched value while it is fresh, and longer while fetching fails."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = anyio.Lock()
        self._value: T | None = None
        self._failure: Unreachable | None = None
        self._fetched_at = self._attempted_at = float("-inf")

    async def get(self) -> T:
        value, age = self._value, self._clock.monotonic() - self._fetched_at
        # While one task fetches, which takes long if the provider hangs, all others use the stale value.
        if value is not None and (age < FRESH_S or (age < MAX_STALE_S and self._lock.locked())):
            return value
        async with self._lock:
            return await self._fetch_if_older(FRESH_S)

    async def refresh(self, stale: T) -> T:
        """Return a value other than `stale`, unless it was fetched a moment ago."""
        async with self._lock:
            return (
                self._value
                if self._value is not None and self._value is not stale
                else await self._fetch_if_older(REFETCH_INTERVAL_S)
            )

    async def _fetch_if_older(self, max_age_s: float) -> T:
        now, value = self._clock.monotonic(), self._value
        if value is not None and (now - self._fetched_at < max_age_s or now - self._attempted_at < REFETCH_INTERVAL_S):
            return value
        if self._failure is not None and now - self._attempted_at < _FAILURE_CACHE_S:
            raise self._failure
        self._attempted_at, self._failure = now, None
        try:
            self._value = await self._fetch()
        except Unreachable as error:
            if value is None or now - self._fetched_at >= MAX_STALE_S:
                self._failure = error  # tasks waiting for the lock get it too instead of trying in turn
                raise
            log.warning("%s; what it said before counts", error.message)
            return value
        self._fetched_at = now
        return self._value


def _lists_value(document: Mapping[str, Any], name: str, value: str, *, default: bool) -> bool:
    values = document.get(name)
    return value in cast("list[object]", values) if isinstance(values, list) else default


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
