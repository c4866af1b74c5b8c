"""Ed25519 keys for signing and trusting: in our own one-line form, as PEM, or in OpenSSH's format."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NewType

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import NotFound, OperatorError
from paddock.core.printable import printable
from paddock.store.filesystem import create_private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KeyId = NewType("KeyId", str)

_PREFIX = "ed25519:"
_PRIVATE_KEY_MARKER = "PRIVATE KEY-----"
_MAX_KEY_FILE_BYTES = 16 * 1024


class PublicKey(Struct, frozen=True):
    """An Ed25519 public key, 32 bytes."""

    raw: bytes

    @property
    def text(self) -> str:
        """The key in our own form, `ed25519:BASE64`."""
        return _PREFIX + base64.b64encode(self.raw).decode()


def key_id(public_key: PublicKey) -> KeyId:
    """Return a short fingerprint for people and tables. Compare whole keys where trust depends on it."""
    return KeyId(hashlib.sha256(b"paddock-key-v1\n" + public_key.raw).hexdigest()[:16])


def generate_key(path: Path) -> str:
    """Create a key pair, write the private key (PKCS8 PEM, 0600) and return the public key as text.

    Raises:
        OperatorError: the file exists already, or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private_key = Ed25519PrivateKey.generate()
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        create_private_file(path, pem)
    except FileExistsError as error:
        raise OperatorError(f"{path} is already there", code="key.exists", hint="choose another file") from error
    except OSError as error:
        raise OperatorError(
            f"cannot write {path}: {error.strerror}", code="key.unwritable", hint="see who may write there"
        ) from error
    return PublicKey(private_key.public_key().public_bytes_raw()).text


def read_public_key(key: str | Path) -> PublicKey:
    """Read a public key from a file, or from text: `ed25519:BASE64`, `ssh-ed25519 …` or PEM.

    Raises:
        OperatorError: it is not an Ed25519 public key.
    """
    text = _key_text(key)
    if _PRIVATE_KEY_MARKER in text:
        action = Action.of("key.show", file=str(key) if isinstance(key, Path) else "")
        raise OperatorError("this is a private key", code="key.private", hint="trust its public half", action=action)
    if text.startswith(_PREFIX):
        raw = decode_base64(text.removeprefix(_PREFIX), 32)
        if raw is None:
            raise _bad_key_error("ed25519: must be followed by 32 bytes in base64")
        return PublicKey(raw)
    return PublicKey(_load_public(text.encode()))


def read_public_key_file(path: Path) -> PublicKey:
    """Read the public key in a file, or the public half of the private key in it (PEM or OpenSSH).

    Raises:
        OperatorError: it holds no Ed25519 key, or a private key that needs a passphrase.
    """
    text = _key_text(path)
    if _PRIVATE_KEY_MARKER in text:
        return PublicKey(_load_private(text.encode(), path).public_key().public_bytes_raw())
    return read_public_key(path)


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read the private key in a file that no one else can read.

    Raises:
        NotFound: there is no such file.
        OperatorError: it holds no Ed25519 key without a passphrase, or others can read it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MAX_KEY_FILE_BYTES)
    except FileNotFoundError as error:
        raise _file_not_found_error(path) from error
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="key.unreadable") from error
    # Before its mode: a file that is not a key need not be private.
    if _PRIVATE_KEY_MARKER.encode() not in content:
        raise _bad_key_error(f"{path} is not a private key")
    if mode & 0o077:
        raise OperatorError(
            f"{path} can be read by others", code="key.exposed", hint=f"chmod 600 {shlex.quote(str(path))}"
        )
    return _load_private(content, path)


def decode_base64(text: str, length: int) -> bytes | None:
    """Decode exactly `length` bytes from base64, or return None."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == length else None


def _key_text(key: str | Path) -> str:
    if isinstance(key, str) and key.lstrip().startswith((_PREFIX, "ssh-", "-----BEGIN ")):
        return key.strip()
    path = Path(key)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_KEY_FILE_BYTES + 1)
        if len(content) > _MAX_KEY_FILE_BYTES:
            raise _bad_key_error(f"{path} is too big for a key")
        # Comments after a key may be in any language; the key itself is ASCII.
        return content.decode().strip()
    except FileNotFoundError as error:
        if isinstance(key, Path):
            raise _file_not_found_error(path) from error
        raise _bad_key_error(f"{printable(key)} is neither a public key nor a file that holds one") from error
    except (OSError, ValueError) as error:
        raise _bad_key_error(f"{printable(str(key))} is neither a public key nor a file that holds one") from error


def _load_public(data: bytes) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    is_ssh = data.startswith((b"ssh-", b"ecdsa-", b"sk-"))
    load = serialization.load_ssh_public_key if is_ssh else serialization.load_pem_public_key
    try:
        public_key = load(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _bad_key_error("this is not a public key") from error
    if not isinstance(public_key, Ed25519PublicKey):
        raise _unsupported_key_error("this", public_key)
    return public_key.public_bytes_raw()


def _load_private(content: bytes, path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    is_ssh = b"OPENSSH PRIVATE KEY" in content
    load = serialization.load_ssh_private_key if is_ssh else serialization.load_pem_private_key
    try:
        private_key = load(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _bad_key_error(f"{path} is not a private key without a passphrase") from error
    if not isinstance(private_key, Ed25519PrivateKey):
        raise _unsupported_key_error(str(path), private_key)
    return private_key


def _unsupported_key_error(label: str, key: object) -> OperatorError:
    # The library's classes are named RSAPublicKey, EllipticCurvePrivateKey, …
    kind = type(key).__name__.lstrip("_").removesuffix("PublicKey").removesuffix("PrivateKey")
    return OperatorError(
        f"{label} is a key of type {kind}, and only Ed25519 keys are supported",
        code="key.invalid",
        hint="its owner can also create one with ssh-keygen -t ed25519",
        action=Action.of("key.add"),
    )


def _file_not_found_error(path: Path) -> NotFound:
    return NotFound(f"{printable(str(path))} does not exist", code="key.no_file", action=Action.of("key.add"))


def _bad_key_error(message: str) -> OperatorError:
    return OperatorError(message, code="key.invalid", action=Action.of("key.add"))
