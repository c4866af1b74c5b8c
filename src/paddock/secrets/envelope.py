"""Envelope encryption of one secret version: the value under its own data key, that key under a wrapping key. Pure.

Both layers are AES-256-GCM, with the identity of the secret as associated data: a row copied to another tenant, owner,
name or version does not decrypt there.
"""

from __future__ import annotations

import dataclasses
import json
import re
from hashlib import sha256

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.clock import Random
from paddock.core.errors import HostError
from paddock.core.secret import Secret

KEY_BYTES = 32
KEY_ID = re.compile("[0-9a-f]{16}")
_NONCE_BYTES = 12


class SecretVersion(Struct, frozen=True):
    """The identity of one version of a secret. `owner` is empty if it belongs to the whole tenant."""

    tenant: str
    owner: str
    name: str
    version: int

    def associated_data(self, layer: str) -> bytes:
        """Return the associated data of a layer. JSON, so that no two identities encode alike."""
        return json.dumps(["paddock-secret-v1", layer, self.tenant, self.owner, self.name, self.version]).encode()


@dataclasses.dataclass(frozen=True, slots=True)
class WrappingKey:
    """A key that wraps data keys, and its id."""

    raw: bytes = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise HostError(f"a key for secrets has {KEY_BYTES} bytes", code="secret.key")

    @property
    def id(self) -> str:
        return sha256(b"paddock-secret-key-v1\n" + self.raw).hexdigest()[:16]


@dataclasses.dataclass(frozen=True, slots=True)
class Envelope:
    """A sealed secret version: without the wrapping key of that id it reveals nothing."""

    key_id: str
    wrapped: bytes = dataclasses.field(repr=False)
    sealed: bytes = dataclasses.field(repr=False)


def seal(value: Secret, version: SecretVersion, key: WrappingKey, random: Random) -> Envelope:
    """Seal a value under a fresh data key."""
    data_key = random.bytes(KEY_BYTES)
    sealed = _encrypt(
        data_key, value.reveal().encode("utf-8", "surrogatepass"), version.associated_data("value"), random
    )
    return Envelope(key.id, _wrap_data_key(data_key, version, key, random), sealed)


def unseal(envelope: Envelope, version: SecretVersion, key: WrappingKey) -> Secret:
    """Decrypt a value.

    Raises:
        HostError: `secret.unreadable`: wrong key, altered bytes, or a row of another secret.
    """
    data_key = _unwrap_data_key(envelope, version, key)
    return Secret(
        _decrypt(data_key, envelope.sealed, version.associated_data("value"), version).decode("utf-8", "surrogatepass")
    )


def rewrap(envelope: Envelope, version: SecretVersion, old: WrappingKey, new: WrappingKey, random: Random) -> Envelope:
    """Wrap the data key of a sealed value with another key. The value itself is not decrypted.

    Raises:
        HostError: `secret.unreadable`; see `unseal`.
    """
    return Envelope(
        new.id, _wrap_data_key(_unwrap_data_key(envelope, version, old), version, new, random), envelope.sealed
    )


def _wrap_data_key(data_key: bytes, version: SecretVersion, key: WrappingKey, random: Random) -> bytes:
    return _encrypt(key.raw, data_key, version.associated_data(f"key {key.id}"), random)


def _unwrap_data_key(envelope: Envelope, version: SecretVersion, key: WrappingKey) -> bytes:
    return _decrypt(key.raw, envelope.wrapped, version.associated_data(f"key {key.id}"), version)


def _encrypt(key: bytes, data: bytes, associated_data: bytes, random: Random) -> bytes:
    # Imported here: it is slow to load, and few commands and calls need it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = random.bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, associated_data)


def _decrypt(key: bytes, data: bytes, associated_data: bytes, version: SecretVersion) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], associated_data)
    except (InvalidTag, ValueError):
        raise HostError(
            f"the secret {version.name} cannot be opened: it was modified, or sealed under another name or owner",
            code="secret.unreadable",
            action=Action.of("secret.set", name=version.name),
        ) from None
