"""Who stands behind a package: a detached Ed25519 signature over its tree digest, in `paddock.sig` at its root.

A signature proves that a key signed exactly these files. Whether that key means anything is the operator's choice:
only keys they trust make a package *verified*, and what a manifest claims about itself can only lower that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NewType

from paddock.core.errors import NotFound, OperatorError
from paddock.core.printable import printable
from paddock.plugins.folder import folder_tree
from paddock.plugins.names import DEFAULT_LIMITS, SIGNATURE_FILE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KeyId = NewType("KeyId", str)
Tier = Literal["verified", "community", "personal"]

_MESSAGE = b"paddock-signature-v1\n"
_PREFIX = "ed25519:"
_PRIVATE = "PRIVATE KEY-----"
_LONGEST_KEY_FILE = 16 * 1024
TIERS: tuple[Tier, ...] = ("personal", "community", "verified")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 public key, 32 bytes."""

    raw: bytes

    @property
    def text(self) -> str:
        """The key in our own form, `ed25519:BASE64`."""
        return _PREFIX + base64.b64encode(self.raw).decode()


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key that the operator trusts, and what they call its owner."""

    public_key: PublicKey
    name: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The content of a well-formed `paddock.sig`; says nothing yet about whether it is valid."""

    public_key: PublicKey
    digest: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class MalformedSignature:
    """A `paddock.sig` that cannot be read as one."""

    reason: str


class SignatureState(StrEnum):
    """What a package's signature is worth here."""

    VERIFIED = "verified"
    COMMUNITY_SIGNED = "community-signed"
    UNSIGNED = "unsigned"
    MODIFIED = "modified"


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """The state with its reason, and the key when the signature is valid (its name when trusted)."""

    state: SignatureState
    reason: str
    key: KeyId | None = None
    signer: str | None = None


def key_id(public_key: PublicKey) -> KeyId:
    """A short fingerprint for people and tables. Compare whole keys where trust depends on it."""
    return KeyId(hashlib.sha256(b"paddock-key-v1\n" + public_key.raw).hexdigest()[:16])


def signature_state(
    tree_digest: str,
    signature: Signature | MalformedSignature | None,
    trusted_keys: Mapping[KeyId, TrustedKey],
) -> SignatureVerdict:
    """What the signature says about the tree with this digest."""
    if signature is None:
        return SignatureVerdict(SignatureState.UNSIGNED, "nobody signed it")
    if isinstance(signature, MalformedSignature):
        return SignatureVerdict(SignatureState.MODIFIED, signature.reason)
    if signature.digest != tree_digest:
        return SignatureVerdict(SignatureState.MODIFIED, "the files are not the ones that were signed")
    if not _is_valid(signature):
        return SignatureVerdict(SignatureState.MODIFIED, "the signature was not made by the key it names")
    key = key_id(signature.public_key)
    trusted = trusted_keys.get(key)
    if trusted is not None and trusted.public_key == signature.public_key:
        return SignatureVerdict(SignatureState.VERIFIED, f"signed by {printable(trusted.name)}", key, trusted.name)
    return SignatureVerdict(SignatureState.COMMUNITY_SIGNED, f"signed by {key}, a key that is not trusted here", key)


def effective_tier(state: SignatureState, claimed: str | None) -> Tier:
    """The trust tier that holds, whatever the manifest claims; a lower claim is taken at its word."""
    earned: Tier = "personal"
    if state is SignatureState.VERIFIED:
        earned = "verified"
    elif state is SignatureState.COMMUNITY_SIGNED:
        earned = "community"
    lower = TIERS[: TIERS.index(earned)]
    return lower[lower.index(claimed)] if claimed in lower else earned


def read_signature(root: Path) -> Signature | MalformedSignature | None:
    """The signature at the root of a package, or None when it has none."""
    try:
        descriptor = os.open(root / SIGNATURE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return MalformedSignature(f"{SIGNATURE_FILE} cannot be read: {error.strerror}")
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return None  # an ordinary directory, covered by the digest
        content = os.read(descriptor, DEFAULT_LIMITS.signature_bytes + 1)
    finally:
        os.close(descriptor)
    return parse_signature(content)


def parse_signature(content: bytes) -> Signature | MalformedSignature:
    """The bytes of a `paddock.sig`."""
    if len(content) > DEFAULT_LIMITS.signature_bytes:
        return MalformedSignature(f"{SIGNATURE_FILE} is too big")
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError):
        return MalformedSignature(f"{SIGNATURE_FILE} is not JSON")
    match document:
        case {
            "version": 1,
            "algorithm": "ed25519",
            "public_key": str() as public_key,
            "digest": str() as digest,
            "signature": str() as signature,
        }:
            raw_key, raw_signature = _decoded(public_key, 32), _decoded(signature, 64)
            if raw_key is None or raw_signature is None:
                return MalformedSignature(f"{SIGNATURE_FILE} holds a key or signature of the wrong length")
            return Signature(PublicKey(raw_key), digest, raw_signature)
        case _:
            return MalformedSignature(f"{SIGNATURE_FILE} is not a version 1 ed25519 signature")


def sign_tree(root: Path, private_key_path: Path) -> Signature:
    """Sign the package in a directory as it would be staged, and write `paddock.sig` there.

    Raises:
        Invalid: the directory could not be installed, so there is nothing to sign.
        OperatorError: the key cannot be used.
    """
    private_key = _read_private_key(private_key_path)
    digest = folder_tree(root).digest
    public_key = PublicKey(private_key.public_key().public_bytes_raw())
    signature = Signature(public_key, digest, private_key.sign(_MESSAGE + digest.encode()))
    document = {
        "version": 1,
        "algorithm": "ed25519",
        "public_key": base64.b64encode(public_key.raw).decode(),
        "digest": digest,
        "signature": base64.b64encode(signature.signature).decode(),
    }
    _write_atomically(root / SIGNATURE_FILE, json.dumps(document, indent=2).encode() + b"\n")
    return signature


def new_key(path: Path) -> str:
    """Make a key pair, write the private key (PKCS8 PEM, 0600) and give the public key as text.

    Raises:
        OperatorError: something is there already, or it cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private_key = Ed25519PrivateKey.generate()
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise OperatorError(f"{path} is already there", code="key.exists", hint="choose another file") from error
    except OSError as error:
        raise OperatorError(f"cannot write {path}: {error.strerror}", code="key.unwritable") from error
    return PublicKey(private_key.public_key().public_bytes_raw()).text


def read_public_key(key: str | Path) -> PublicKey:
    """A public key from a file, or from text: `ed25519:BASE64`, `ssh-ed25519 …` or PEM.

    Raises:
        OperatorError: it is not an Ed25519 public key.
    """
    text = _key_text(key)
    if _PRIVATE in text:
        where = f" {shlex.quote(str(key))}" if isinstance(key, Path) else " FILE"
        hint = f"trust its public half, which this prints: paddock key show{where}"
        raise OperatorError("this is a private key", code="key.private", hint=hint)
    if text.startswith(_PREFIX):
        raw = _decoded(text.removeprefix(_PREFIX), 32)
        if raw is None:
            raise _bad_key("ed25519: must be followed by 32 bytes in base64")
        return PublicKey(raw)
    return PublicKey(_load_public(text.encode()))


def public_key_in(path: Path) -> PublicKey:
    """The public key that a file holds, or the public half of the private key in it (PEM or OpenSSH).

    Raises:
        OperatorError: it holds no Ed25519 key, or a private key that needs a passphrase.
    """
    text = _key_text(path)
    if _PRIVATE in text:
        return PublicKey(_load_private(text.encode(), path).public_key().public_bytes_raw())
    return read_public_key(path)


def _key_text(key: str | Path) -> str:
    if isinstance(key, str) and key.lstrip().startswith((_PREFIX, "ssh-", "-----BEGIN ")):
        return key.strip()
    path = Path(key)
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_KEY_FILE + 1)
        if len(content) > _LONGEST_KEY_FILE:
            raise _bad_key(f"{path} is too big for a key")
        # Comments after a key are in any language; the key itself is ASCII.
        return content.decode().strip()
    except FileNotFoundError as error:
        if isinstance(key, Path):
            raise _no_file(path) from error
        raise _bad_key(f"{printable(key)} is neither a public key nor a file that holds one") from error
    except (OSError, ValueError) as error:
        raise _bad_key(f"{printable(str(key))} is neither a public key nor a file that holds one") from error


def _load_public(data: bytes) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    is_ssh = data.startswith((b"ssh-", b"ecdsa-", b"sk-"))
    load = serialization.load_ssh_public_key if is_ssh else serialization.load_pem_public_key
    try:
        public_key = load(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _bad_key("this is not a public key") from error
    if not isinstance(public_key, Ed25519PublicKey):
        raise _other_kind("this", public_key)
    return public_key.public_bytes_raw()


def _read_private_key(path: Path) -> Ed25519PrivateKey:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LONGEST_KEY_FILE)
    except FileNotFoundError as error:
        raise _no_file(path) from error
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="key.unreadable") from error
    # Before its mode: what is no key need not be private.
    if _PRIVATE.encode() not in content:
        raise _bad_key(f"{path} is not a private key")
    if mode & 0o077:
        raise OperatorError(
            f"{path} can be read by others", code="key.exposed", hint=f"chmod 600 {shlex.quote(str(path))}"
        )
    return _load_private(content, path)


def _load_private(content: bytes, path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    is_ssh = b"OPENSSH PRIVATE KEY" in content
    load = serialization.load_ssh_private_key if is_ssh else serialization.load_pem_private_key
    try:
        private_key = load(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _bad_key(f"{path} is not a private key without a passphrase") from error
    if not isinstance(private_key, Ed25519PrivateKey):
        raise _other_kind(str(path), private_key)
    return private_key


def _is_valid(signature: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public_key = Ed25519PublicKey.from_public_bytes(signature.public_key.raw)
        public_key.verify(signature.signature, _MESSAGE + signature.digest.encode(errors="replace"))
    except (InvalidSignature, ValueError):
        return False
    return True


def _other_kind(what: str, key: object) -> OperatorError:
    # The library's classes are named RSAPublicKey, EllipticCurvePrivateKey, …
    kind = type(key).__name__.lstrip("_").removesuffix("PublicKey").removesuffix("PrivateKey")
    return OperatorError(
        f"{what} is a key of the kind {kind}, and only Ed25519 keys are taken",
        code="key.invalid",
        hint="its owner makes one with: paddock key new FILE, or ssh-keygen -t ed25519",
    )


def _no_file(path: Path) -> NotFound:
    return NotFound(
        f"{printable(str(path))} does not exist", code="key.no_file", hint="make a key with: paddock key new FILE"
    )


def _bad_key(message: str) -> OperatorError:
    return OperatorError(message, code="key.invalid", hint="make one with: paddock key new FILE")


def _decoded(text: str, length: int) -> bytes | None:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == length else None


def _write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise OperatorError(f"cannot write {path}: {error.strerror}", code="signature.unwritable") from error
    finally:
        temporary.unlink(missing_ok=True)
