"""Tokens that are not what they seem to be."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from fixtures.all_cases import all_cases
from paddock.web.oidc.tokens import (
    MAX_TOKEN_CHARS,
    InvalidToken,
    JsonWebKeySet,
    UnknownSigningKey,
    check_access_token,
    check_id_token,
    parse_key_set,
    parse_token_header,
    scopes_in_claims,
    verify_signature,
)

ISSUER = "https://login.example.org"
CLIENT = "paddock"
RESOURCE = "https://paddock.example.org/mcp"
NOW = 1_900_000_000.0
NONCE = "the-nonce"

PRIVATE = rsa.generate_private_key(65537, 2048)
OTHERS = rsa.generate_private_key(65537, 2048)


def published(private: Any = PRIVATE, kid: str = "one", **more: Any) -> dict[str, Any]:
    algorithm = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    kind = next((one for base, one in algorithm.items() if isinstance(private, base)), OKPAlgorithm)
    return {**kind.to_jwk(private.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


KEYS = parse_key_set({"keys": [published()]})


def claims(**other: Any) -> dict[str, Any]:
    usual = {"iss": ISSUER, "aud": CLIENT, "sub": "ann", "exp": NOW + 300, "iat": NOW - 5, "nonce": NONCE}
    return {name: value for name, value in (usual | other).items() if value is not None}


def signed(said: dict[str, Any], private: Any = PRIVATE, algorithm: str = "RS256", **headers: Any) -> str:
    named = {name: value for name, value in {"kid": "one", **headers}.items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(said).encode(), private, algorithm, headers=named)


def read(token: str, keys: JsonWebKeySet = KEYS) -> dict[str, Any]:
    return verify_signature(token, parse_token_header(token), keys)


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def reason(token: str, keys: JsonWebKeySet = KEYS) -> str:
    with pytest.raises(InvalidToken) as bad:
        check_id_token(read(token, keys), ISSUER, CLIENT, NONCE, NOW)
    return bad.value.reason


def test_a_token_of_the_provider_for_this_sign_in_is_taken() -> None:
    said = read(signed(claims()))
    check_id_token(said, ISSUER, CLIENT, NONCE, NOW)
    assert said["sub"] == "ann"


@pytest.mark.parametrize(
    ("algorithm", "private"),
    [
        ("RS512", PRIVATE),
        ("PS256", PRIVATE),
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
        ("ES384", ec.generate_private_key(ec.SECP384R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
    ],
)
def test_every_algorithm_with_a_public_key_is_taken(algorithm: str, private: Any) -> None:
    keys = parse_key_set({"keys": [published(private)]})
    assert read(signed(claims(), private, algorithm), keys)["sub"] == "ann"


def test_a_token_that_nobody_signed_is_not_taken() -> None:
    for algorithm in ("none", "None", "NONE", ""):
        assert reason(f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims())}.") == "algorithm"


@pytest.mark.parametrize("form", [PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1])
def test_a_token_that_is_signed_with_the_public_key_as_if_it_were_a_password_is_not_taken(form: PublicFormat) -> None:
    password = PRIVATE.public_key().public_bytes(Encoding.PEM, form)
    head = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'one'})}.{part(claims())}"
    token = f"{head}.{part(hmac.digest(password, head.encode(), hashlib.sha256))}"
    assert reason(token) == "algorithm"
    # Nor where somebody gets a key of that kind published.
    shared = parse_key_set({"keys": [{"kty": "oct", "k": part(password), "kid": "one", "alg": "HS256"}]})
    assert reason(token, shared) == "algorithm"


def test_a_token_of_somebody_else_or_changed_on_its_way_is_not_taken() -> None:
    assert reason(signed(claims(), OTHERS)) == "signature"
    head, _, signature = signed(claims()).split(".")
    assert reason(f"{head}.{part(claims(sub='root'))}.{signature}") == "signature"


def test_a_token_that_brings_its_own_key_is_not_taken_at_its_word() -> None:
    token = signed(claims(), OTHERS, jwk=published(OTHERS), jku="https://evil.example/keys")
    assert reason(token) == "signature"


def test_a_key_is_used_for_what_it_is_published_for() -> None:
    for odd in ({"use": "enc"}, {"alg": "PS256"}, {"kty": "EC"}):
        with pytest.raises(UnknownSigningKey):
            read(signed(claims()), parse_key_set({"keys": [published(**odd)]}))
    with pytest.raises(UnknownSigningKey):
        read(signed(claims(), kid="two"))
    with pytest.raises(UnknownSigningKey):
        read(signed(claims(), kid=None), parse_key_set({"keys": [published(), published(OTHERS, "two")]}))


def test_a_private_key_that_was_published_by_mistake_counts_for_nothing() -> None:
    assert parse_key_set({"keys": [{**RSAAlgorithm.to_jwk(PRIVATE, as_dict=True), "kid": "one"}]}).keys == ()


def test_a_key_that_is_too_short_proves_nothing() -> None:
    with pytest.warns(Warning, match="below the minimum"):
        token = signed(claims(), short := rsa.generate_private_key(65537, 1024))
    assert reason(token, parse_key_set({"keys": [published(short)]})) == "signature"


@all_cases(
    ("said", "why"),
    [
        (claims(iss="https://login.example.com"), "issuer"),
        (claims(iss=f"{ISSUER}/"), "issuer"),
        (claims(aud="another"), "audience"),
        (claims(aud=["another", "third"]), "audience"),
        (claims(aud=None), "audience"),
        (claims(aud={"paddock": 1}), "audience"),
        (claims(aud=[CLIENT, "another"]), "authorized_party"),
        (claims(azp="another"), "authorized_party"),
        (claims(exp=NOW - 61), "expired"),
        (claims(exp=None), "expired"),
        (claims(exp="2100"), "malformed"),
        (claims(exp=True), "malformed"),
        (claims(exp=1e300), "malformed"),
        (claims(nbf=NOW + 61), "not_yet_valid"),
        (claims(iat=NOW + 61), "not_yet_valid"),
        (claims(iat=None), "issued_at"),
        (claims(nonce="another"), "nonce"),
        (claims(nonce=None), "nonce"),
        (claims(sub=None), "subject"),
        (claims(sub=""), "subject"),
        (claims(sub=7), "subject"),
        (claims(sub="a" * 256), "subject"),
        (claims(sub="ann\nroot"), "subject"),
    ],
)
def test_an_id_token_has_to_answer_this_very_sign_in(said: dict[str, Any], why: str) -> None:
    assert reason(signed(said)) == why


def test_clocks_may_differ_by_a_minute() -> None:
    within, beyond = (claims(exp=NOW - apart, iat=NOW + apart, nbf=NOW + apart) for apart in (59, 61))
    check_id_token(within, ISSUER, CLIENT, NONCE, NOW)
    assert reason(signed(beyond)) in ("expired", "not_yet_valid")


def test_several_audiences_are_taken_where_the_provider_says_that_we_asked() -> None:
    audiences = [CLIENT, "another"]
    check_id_token(claims(aud=audiences, azp=CLIENT), ISSUER, CLIENT, NONCE, NOW)
    assert reason(signed(claims(aud=audiences, azp="another"))) == "authorized_party"


def test_what_is_no_token_is_not_taken() -> None:
    nested = "[" * 50_000
    for token in (
        "",
        "a.b",
        "a.b.c",
        "....",
        "é.é.é",
        "x" * (MAX_TOKEN_CHARS + 1),
        f"{part(b'[]')}.e30.",
        f"{part(nested)}..",
    ):
        with pytest.raises(InvalidToken):
            read(token)
    with pytest.raises(InvalidToken):
        parse_token_header(signed(claims(), crit=["exp"]))
    assert reason(jwt.PyJWS().encode(b"[]", PRIVATE, "RS256", headers={"kid": "one"})) == "malformed"


def test_an_access_token_is_taken_where_it_was_given_out_for_this_host_and_not_as_an_id_token() -> None:
    said = claims(aud=RESOURCE)
    for kind in ("at+jwt", "application/at+jwt", "JWT"):
        check_access_token(said, parse_token_header(signed(said, typ=kind)), ISSUER, RESOURCE, NOW)
    for bad, kind, why in (
        (said, "id_token+jwt", "type"),
        (claims(aud=CLIENT), "at+jwt", "audience"),
        (claims(aud="https://paddock.example.org"), "at+jwt", "audience"),
        (claims(aud=f"{RESOURCE}/"), "at+jwt", "audience"),
        (claims(aud=[CLIENT, "https://other.example/mcp"]), "at+jwt", "audience"),
    ):
        with pytest.raises(InvalidToken) as refused:
            check_access_token(bad, parse_token_header(signed(bad, typ=kind)), ISSUER, RESOURCE, NOW)
        assert refused.value.reason == why


def test_scopes_are_read_in_every_usual_spelling() -> None:
    assert scopes_in_claims({"scope": "mail files"}) == {"mail", "files"}
    assert scopes_in_claims({"scp": ["mail", 7]}) == {"mail"}
    assert scopes_in_claims({"scp": "mail"}) == {"mail"}
    assert scopes_in_claims({}) == frozenset()


def test_a_document_without_keys_is_none() -> None:
    for document in (None, [], {}, {"keys": {}}, {"keys": [{}] * 101}):
        with pytest.raises(ValueError, match="keys"):
            parse_key_set(document)
    assert parse_key_set({"keys": [7, {"kty": "oct"}, published()]}).keys == (published(),)
