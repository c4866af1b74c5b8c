"""Sealing one version of one secret: its value under a data key of its own, and that key under another. Pure.

Both layers are AES-256-GCM and bound to what they belong to: a row that was copied to another tenant, person, name or
version does not open there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256

from paddock.core.clock import Random
from paddock.core.errors import HostError
from paddock.core.secret import Secret

KEY_BYTES = 32
KEY_ID = re.compile("[0-9a-f]{16}")
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """Which version of which secret it is. `owner` is empty where it belongs to the whole tenant."""

    tenant: str
    owner: str
    name: str
    version: int

    def associated_data(self, layer: str) -> bytes:
        """What a layer is bound to. Written as JSON, so that no two of these can read alike."""
        return json.dumps(["paddock-secret-v1", layer, self.tenant, self.owner, self.name, self.version]).encode()


@dataclass(frozen=True, slots=True)
class WrappingKey:
    """A key that data keys are wrapped with, and the id it is known by."""

    raw: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise HostError(f"a key for secrets has {KEY_BYTES} bytes", code="secret.key")

    @property
    def id(self) -> str:
        return sha256(b"paddock-secret-key-v1\n" + self.raw).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Envelope:
    """A sealed version: nothing of it tells the value without the key of that id."""

    key_id: str
    wrapped: bytes = field(repr=False)
    sealed: bytes = field(repr=False)


def seal(value: Secret, about: SecretVersion, key: WrappingKey, random: Random) -> Envelope:
    """The value, sealed under a fresh data key."""
    data_key = random.bytes(KEY_BYTES)
    sealed = _encrypt(data_key, value.reveal().encode("utf-8", "surrogatepass"), about.associated_data("value"), random)
    return Envelope(key.id, _wrap_data_key(data_key, about, key, random), sealed)


def unseal(envelope: Envelope, about: SecretVersion, key: WrappingKey) -> Secret:
    """The value again.

    Raises:
        HostError: `secret.unreadable`, when it is another key, the bytes were changed, or they belong elsewhere.
    """
    data_key = _unwrap_data_key(envelope, about, key)
    return Secret(
        _decrypt(data_key, envelope.sealed, about.associated_data("value"), about).decode("utf-8", "surrogatepass")
    )


def rewrap(envelope: Envelope, about: SecretVersion, old: WrappingKey, new: WrappingKey, random: Random) -> Envelope:
    """The same sealed value with its data key under another key. The value itself is not opened.

    Raises:
        HostError: `secret.unreadable`; see `unseal`.
    """
    return Envelope(new.id, _wrap_data_key(_unwrap_data_key(envelope, about, old), about, new, random), envelope.sealed)


def _wrap_data_key(data_key: bytes, about: SecretVersion, key: WrappingKey, random: Random) -> bytes:
    return _encrypt(key.raw, data_key, about.associated_data(f"key {key.id}"), random)


def _unwrap_data_key(envelope: Envelope, about: SecretVersion, key: WrappingKey) -> bytes:
    return _decrypt(key.raw, envelope.wrapped, about.associated_data(f"key {key.id}"), about)


def _encrypt(key: bytes, data: bytes, bound: bytes, random: Random) -> bytes:
    # Imported here: it is slow to load, and few commands and calls need it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = random.bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, bound)


def _decrypt(key: bytes, data: bytes, bound: bytes, about: SecretVersion) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise HostError(
            f"the secret {about.name} cannot be opened: it was changed, or was sealed for another place",
            code="secret.unreadable",
            hint="set it again: paddock secret set",
        ) from None
