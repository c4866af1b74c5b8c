"""The state of a sign-in in progress, sealed in a cookie of the person's browser.

The server keeps no state, so starting a sign-in changes nothing and costs nothing. A callback without the matching
cookie, or with the cookie of another sign-in, is rejected.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Final
from urllib.parse import urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from paddock.core.clock import Random
from paddock.core.secret import Secret

FLOW_TTL_S: Final = 600
"""Time that a person may spend at the provider."""

_MAX_NEXT_CHARS = 1_024
_NONCE_BYTES = 12
_ASSOCIATED_DATA = b"paddock sign-in"


class SignInFlow(Struct, frozen=True):
    """The values that must match when the provider redirects back."""

    state: str
    nonce: str
    verifier: str
    after: str  # path to redirect to afterwards
    until: int  # seconds since the epoch

    @property
    def pkce_challenge(self) -> str:
        """The PKCE code challenge (S256) of the verifier."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())

    def matches_state(self, state: str) -> bool:
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "surrogatepass"))


def new_flow(random: Random, after: str, now: float) -> SignInFlow:
    """Create a sign-in flow that starts now."""
    state, nonce, verifier = (_base64url(random.bytes(32)) for _ in range(3))
    return SignInFlow(state, nonce, verifier, after, int(now) + FLOW_TTL_S)


def flow_sealing_key(secret: Secret | None, random: Random) -> bytes:
    """Derive the key that seals flows: shared by all nodes with the same client secret, else random per process."""
    if secret is None:
        return random.bytes(32)
    return hmac.digest(secret.reveal().encode(), _ASSOCIATED_DATA, "sha256")


def seal_flow(flow: SignInFlow, key: bytes, random: Random) -> str:
    """Encrypt a flow into a cookie value."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = random.bytes(_NONCE_BYTES)
    return _base64url(nonce + AESGCM(key).encrypt(nonce, orjson.dumps(asdict(flow)), _ASSOCIATED_DATA))


def unseal_flow(cookie: str, key: bytes, now: float) -> SignInFlow | None:
    """Decrypt the flow of a cookie; None if it is not ours or has expired."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        raw = urlsafe_b64decode(cookie.encode("ascii") + b"==")
        flow = SignInFlow(**orjson.loads(AESGCM(key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _ASSOCIATED_DATA)))
    except (UnicodeError, NotBase64, InvalidTag, ValueError, TypeError):
        return None  # TypeError: sealed by another version of Paddock
    return flow if flow.until > now else None


def safe_redirect_path(path: str | None) -> str:
    """Return the requested path if it is on this host, else `/` (open redirect protection).

    Rejects everything that a browser could take for another host: two slashes, a backslash, a scheme, control
    characters.
    """
    if not path or not path.startswith("/") or len(path) > _MAX_NEXT_CHARS:
        return "/"
    if path.startswith("//") or "\\" in path or not path.isascii() or not path.isprintable() or " " in path:
        return "/"
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc else path


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
