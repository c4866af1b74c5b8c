"""One sign-in that is under way: what the person's browser keeps of it, sealed, until they come back.

Nothing is kept here, so beginning a sign-in changes nothing and costs nothing. Whoever comes back without what they
began with, or with what somebody else began, is not signed in.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import urlsplit

import orjson

from paddock.core.clock import Random
from paddock.core.secret import Secret

FLOW_TTL_S: Final = 600
"""Seconds that somebody may take at the provider."""

_MAX_NEXT_CHARS = 1_024
_NONCE_BYTES = 12
_ASSOCIATED_DATA = b"paddock sign-in"


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """What has to match when they come back."""

    state: str
    nonce: str
    verifier: str
    after: str  # where they wanted to go
    until: int  # seconds since the epoch

    @property
    def pkce_challenge(self) -> str:
        """What the provider is told of the verifier (PKCE, S256)."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())

    def matches_state(self, state: str) -> bool:
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "surrogatepass"))


def new_flow(random: Random, after: str, now: float) -> SignInFlow:
    """A sign-in that begins now."""
    state, nonce, verifier = (_base64url(random.bytes(32)) for _ in range(3))
    return SignInFlow(state, nonce, verifier, after, int(now) + FLOW_TTL_S)


def flow_sealing_key(secret: Secret | None, random: Random) -> bytes:
    """What flows are sealed under: the same on every node that shares the client's secret, else this process's own."""
    if secret is None:
        return random.bytes(32)
    return hmac.digest(secret.reveal().encode(), _ASSOCIATED_DATA, "sha256")


def seal_flow(flow: SignInFlow, key: bytes, random: Random) -> str:
    """A flow as a cookie carries it."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = random.bytes(_NONCE_BYTES)
    return _base64url(nonce + AESGCM(key).encrypt(nonce, orjson.dumps(asdict(flow)), _ASSOCIATED_DATA))


def unseal_flow(cookie: str, key: bytes, now: float) -> SignInFlow | None:
    """The flow that a cookie carries; None where it carries none of ours, or one that is over."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        raw = urlsafe_b64decode(cookie.encode("ascii") + b"==")
        flow = SignInFlow(**orjson.loads(AESGCM(key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _ASSOCIATED_DATA)))
    except (UnicodeError, NotBase64, InvalidTag, ValueError, TypeError):
        return None  # the last where another version of this program sealed it
    return flow if flow.until > now else None


def safe_redirect_path(wanted: str | None) -> str:
    """Where to send somebody who signed in: a place on this host as they asked, or its front door.

    Whatever a browser could take for another host is none: two slashes, a backslash, a scheme, a control character.
    """
    if not wanted or not wanted.startswith("/") or len(wanted) > _MAX_NEXT_CHARS:
        return "/"
    if wanted.startswith("//") or "\\" in wanted or not wanted.isascii() or not wanted.isprintable() or " " in wanted:
        return "/"
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc else wanted


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
