"""Signed tokens (JWT) of an identity provider: whether one is genuine, of now, and meant for us. Pure.

Signatures are PyJWT's to check. Which algorithms count, which key, and what the claims have to say is decided here,
with the time as a value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Those with a public key. `none` proves nothing, and with HS256 whoever knows the public key could sign."""

MAX_TOKEN_CHARS: Final = 16_384
CLOCK_SKEW_S: Final = 60.0
"""Seconds that the provider's clock may differ from ours."""

_MAX_SUBJECT_CHARS = 255
_ACCESS_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_ID_TOKEN_CLAIMS = frozenset({"at_hash", "c_hash"})  # they say which other token or code an ID token came with
_ID_TOKEN_MARKERS = frozenset({("typ", "ID"), ("token_use", "id")})  # as Keycloak and Cognito have it
_MAX_KEYS = 100


class InvalidToken(Exception):
    """It proves nothing; the reason is a word for the record and never part of the token."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownSigningKey(InvalidToken):
    """It names a key that the provider has not published so far."""


@dataclass(frozen=True, slots=True)
class TokenHeader:
    """What a token says of its signature. Not to be believed before that was checked."""

    algorithm: str
    key_id: str | None
    token_type: str


@dataclass(frozen=True, slots=True)
class JsonWebKeySet:
    """The public keys of a provider, as it publishes them (JWKS)."""

    keys: tuple[Mapping[str, Any], ...]

    def key_for(self, head: TokenHeader) -> Mapping[str, Any]:
        """The one key that a token can be signed with.

        Raises:
            UnknownKey: there is none, or it does not say which of several.
        """
        fitting = [key for key in self.keys if _key_fits(key, head)]
        if len(fitting) != 1:
            raise UnknownSigningKey("unknown_key")
        return fitting[0]


def parse_key_set(document: object) -> JsonWebKeySet:
    """The keys in a published document. Those that cannot check a signature are left out.

    Raises:
        ValueError: it is no such document.
    """
    keys = cast("dict[str, Any]", document).get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(cast("list[Any]", keys)) > _MAX_KEYS:
        raise ValueError("no list of keys")
    known = [cast("dict[str, Any]", key) for key in cast("list[Any]", keys) if isinstance(key, dict)]
    return JsonWebKeySet(tuple(key for key in known if key.get("kty") in ("RSA", "EC", "OKP") and "d" not in key))


def parse_token_header(token: str) -> TokenHeader:
    """What a token says of its signature.

    Raises:
        BadToken: it is none that we take.
    """
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2 or not token.isascii():
        raise InvalidToken("malformed")
    try:
        header = PyJWS().get_unverified_header(token)
    except PyJWTError:
        raise InvalidToken("malformed") from None
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
    if algorithm not in ALGORITHMS:
        raise InvalidToken("algorithm")
    if "crit" in header or not isinstance(kind, str) or not (key_id is None or isinstance(key_id, str)):
        raise InvalidToken("malformed")
    return TokenHeader(algorithm, key_id, kind.lower())


def verify_signature(token: str, head: TokenHeader, keys: JsonWebKeySet) -> dict[str, Any]:
    """What a token claims, once its signature is known to be the provider's.

    Raises:
        UnknownKey: no published key can have signed it.
        BadToken: none did.
    """
    from jwt import PyJWK, PyJWS
    from jwt.exceptions import PyJWTError

    published = dict(keys.key_for(head))
    try:
        key = PyJWK(published, algorithm=head.algorithm)
        signed = PyJWS(options={"enforce_minimum_key_length": True})
        payload: bytes = signed.decode_complete(token, key, algorithms=[head.algorithm])["payload"]
        claims: object = json.loads(payload)
    except (PyJWTError, ValueError, RecursionError):
        raise InvalidToken("signature") from None
    if not isinstance(claims, dict):
        raise InvalidToken("malformed")
    return cast("dict[str, Any]", claims)


def check_id_token(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str, now: float) -> None:
    """See that an ID token answers this very sign-in.

    Raises:
        BadToken: it does not.
    """
    audiences = _check_common(claims, issuer, client_id, now)
    party = claims.get("azp")
    if party != client_id and (party is not None or len(audiences) > 1):
        raise InvalidToken("authorized_party")
    if _numeric_claim(claims, "iat") is None:
        raise InvalidToken("issued_at")
    if claims.get("nonce") != nonce:
        raise InvalidToken("nonce")


def check_access_token(claims: Mapping[str, Any], head: TokenHeader, issuer: str, resource: str, now: float) -> None:
    """See that an access token was given out for this host (RFC 9068, RFC 8707).

    An ID token is for whoever signed somebody in, who is called otherwise: see `opening.py`. Where one names us all the
    same, what only such tokens say gives it away.

    Raises:
        BadToken: it was not.
    """
    if head.token_type not in _ACCESS_TYPES or not _ID_TOKEN_CLAIMS.isdisjoint(claims):
        raise InvalidToken("type")
    if any(claims.get(name) == word for name, word in _ID_TOKEN_MARKERS):
        raise InvalidToken("type")
    _check_common(claims, issuer, resource, now)


def scopes_in_claims(claims: Mapping[str, Any]) -> frozenset[str]:
    """The OAuth scopes of an access token, in the spelling of the standard or of those who differ."""
    for name in ("scope", "scp"):
        said = claims.get(name)
        if isinstance(said, str):
            return frozenset(said.split())
        if isinstance(said, list):
            return frozenset(word for word in cast("list[object]", said) if isinstance(word, str))
    return frozenset()


def _check_common(claims: Mapping[str, Any], issuer: str, audience: str, now: float) -> Sequence[str]:
    """Issuer, audience, times and subject; gives all its audiences."""
    if claims.get("iss") != issuer:
        raise InvalidToken("issuer")
    written = claims.get("aud")
    audiences = cast("list[object]", written) if isinstance(written, list) else [written]
    if audience not in audiences:
        raise InvalidToken("audience")
    expires, begins, issued = (
        _numeric_claim(claims, "exp"),
        _numeric_claim(claims, "nbf"),
        _numeric_claim(claims, "iat"),
    )
    if expires is None or expires + CLOCK_SKEW_S <= now:
        raise InvalidToken("expired")
    if max(begins or 0.0, issued or 0.0) - CLOCK_SKEW_S > now:
        raise InvalidToken("not_yet_valid")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or not subject.isprintable():
        raise InvalidToken("subject")
    return [one for one in audiences if isinstance(one, str)]


def _numeric_claim(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise InvalidToken("malformed")
    return float(value)


def _key_fits(key: Mapping[str, Any], head: TokenHeader) -> bool:
    """Whether this key can have made such a signature; one that names its algorithm makes no other."""
    kind = {"R": "RSA", "P": "RSA", "E": "OKP" if head.algorithm == "EdDSA" else "EC"}[head.algorithm[0]]
    return (
        key.get("kty") == kind
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, head.algorithm)
        and head.key_id in (None, key.get("kid"))
    )
