"""Verification of the provider's signed tokens (JWT): signature, times, audience and type. Pure.

PyJWT checks signatures. Accepted algorithms, key selection and claim checks are decided here, with the time passed in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Asymmetric algorithms only. `none` proves nothing, and with HS256 anybody who has the public key could sign."""

MAX_TOKEN_CHARS: Final = 16_384
CLOCK_SKEW_S: Final = 60.0
"""Accepted difference between the provider's clock and ours."""

_MAX_SUBJECT_CHARS = 255
_ACCESS_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_ID_TOKEN_CLAIMS = frozenset({"at_hash", "c_hash"})  # hashes of the access token or code that an ID token came with
_ID_TOKEN_MARKERS = frozenset({("typ", "ID"), ("token_use", "id")})  # of Keycloak and Cognito
_MAX_KEYS = 100


class InvalidToken(Exception):
    """The token is not acceptable; `reason` is a fixed word for the ledger and never part of the token."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownSigningKey(InvalidToken):
    """The token names a key that the provider has not published so far."""


class TokenHeader(Struct, frozen=True):
    """The header of a token; not trustworthy before the signature was verified."""

    algorithm: str
    key_id: str | None
    token_type: str


class JsonWebKeySet(Struct, frozen=True):
    """The public keys of a provider (JWKS)."""

    keys: tuple[Mapping[str, Any], ...]

    def key_for(self, header: TokenHeader) -> Mapping[str, Any]:
        """Return the one key that can have signed a token.

        Raises:
            UnknownSigningKey: there is none, or the header does not say which of several.
        """
        matches = [key for key in self.keys if _key_fits(key, header)]
        if len(matches) != 1:
            raise UnknownSigningKey("unknown_key")
        return matches[0]


def parse_key_set(document: object) -> JsonWebKeySet:
    """Parse a JWKS document, without keys that cannot verify signatures.

    Raises:
        ValueError: it is not a JWKS document.
    """
    keys = cast("dict[str, Any]", document).get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(cast("list[Any]", keys)) > _MAX_KEYS:
        raise ValueError("no list of keys")
    objects = [cast("dict[str, Any]", key) for key in cast("list[Any]", keys) if isinstance(key, dict)]
    return JsonWebKeySet(tuple(key for key in objects if key.get("kty") in ("RSA", "EC", "OKP") and "d" not in key))


def parse_token_header(token: str) -> TokenHeader:
    """Parse the header of a token.

    Raises:
        InvalidToken: it is malformed or has an unsupported algorithm.
    """
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2 or not token.isascii():
        raise InvalidToken("malformed")
    try:
        header = PyJWS().get_unverified_header(token)
    except PyJWTError:
        raise InvalidToken("malformed") from None
    algorithm, key_id, token_type = header.get("alg"), header.get("kid"), header.get("typ", "")
    if algorithm not in ALGORITHMS:
        raise InvalidToken("algorithm")
    if "crit" in header or not isinstance(token_type, str) or not (key_id is None or isinstance(key_id, str)):
        raise InvalidToken("malformed")
    return TokenHeader(algorithm, key_id, token_type.lower())


def verify_signature(token: str, header: TokenHeader, keys: JsonWebKeySet) -> dict[str, Any]:
    """Verify a token's signature and return its claims.

    Raises:
        UnknownSigningKey: no published key can have signed it.
        InvalidToken: the signature is wrong.
    """
    from jwt import PyJWK, PyJWS
    from jwt.exceptions import PyJWTError

    jwk = dict(keys.key_for(header))
    try:
        key = PyJWK(jwk, algorithm=header.algorithm)
        verifier = PyJWS(options={"enforce_minimum_key_length": True})
        payload: bytes = verifier.decode_complete(token, key, algorithms=[header.algorithm])["payload"]
        claims: object = json.loads(payload)
    except (PyJWTError, ValueError, RecursionError):
        raise InvalidToken("signature") from None
    if not isinstance(claims, dict):
        raise InvalidToken("malformed")
    return cast("dict[str, Any]", claims)


def check_id_token(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str, now: float) -> None:
    """Check that an ID token answers this very sign-in.

    Raises:
        InvalidToken: it does not.
    """
    audiences = _check_common(claims, issuer, client_id, now)
    authorized_party = claims.get("azp")
    if authorized_party != client_id and (authorized_party is not None or len(audiences) > 1):
        raise InvalidToken("authorized_party")
    if _numeric_claim(claims, "iat") is None:
        raise InvalidToken("issued_at")
    if claims.get("nonce") != nonce:
        raise InvalidToken("nonce")


def check_access_token(claims: Mapping[str, Any], header: TokenHeader, issuer: str, resource: str, now: float) -> None:
    """Check that an access token was issued for this host (RFC 9068, RFC 8707).

    An ID token has the client id as its audience, which differs from the resource: see `setup.py`. Should one name the
    resource all the same, claims that only ID tokens have give it away.

    Raises:
        InvalidToken: it was not.
    """
    if header.token_type not in _ACCESS_TYPES or not _ID_TOKEN_CLAIMS.isdisjoint(claims):
        raise InvalidToken("type")
    if any(claims.get(name) == value for name, value in _ID_TOKEN_MARKERS):
        raise InvalidToken("type")
    _check_common(claims, issuer, resource, now)


def scopes_in_claims(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the OAuth scopes of an access token, from `scope` (standard) or `scp` (some providers)."""
    for name in ("scope", "scp"):
        value = claims.get(name)
        if isinstance(value, str):
            return frozenset(value.split())
        if isinstance(value, list):
            return frozenset(item for item in cast("list[object]", value) if isinstance(item, str))
    return frozenset()


def _check_common(claims: Mapping[str, Any], issuer: str, audience: str, now: float) -> Sequence[str]:
    """Check issuer, audience, times and subject; return all audiences."""
    if claims.get("iss") != issuer:
        raise InvalidToken("issuer")
    claim = claims.get("aud")
    audiences = cast("list[object]", claim) if isinstance(claim, list) else [claim]
    if audience not in audiences:
        raise InvalidToken("audience")
    expires_at, not_before, issued_at = (
        _numeric_claim(claims, "exp"),
        _numeric_claim(claims, "nbf"),
        _numeric_claim(claims, "iat"),
    )
    if expires_at is None or expires_at + CLOCK_SKEW_S <= now:
        raise InvalidToken("expired")
    if max(not_before or 0.0, issued_at or 0.0) - CLOCK_SKEW_S > now:
        raise InvalidToken("not_yet_valid")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or not subject.isprintable():
        raise InvalidToken("subject")
    return [item for item in audiences if isinstance(item, str)]


def _numeric_claim(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise InvalidToken("malformed")
    return float(value)


def _key_fits(key: Mapping[str, Any], header: TokenHeader) -> bool:
    """Return whether a key can have made the signature; a key that names its algorithm is used with no other."""
    key_type = {"R": "RSA", "P": "RSA", "E": "OKP" if header.algorithm == "EdDSA" else "EC"}[header.algorithm[0]]
    return (
        key.get("kty") == key_type
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, header.algorithm)
        and header.key_id in (None, key.get("kid"))
    )
