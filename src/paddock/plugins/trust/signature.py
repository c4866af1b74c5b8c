"""Package signatures: a detached Ed25519 signature over the tree digest, in `paddock.sig` at the root.

A signature proves that a key signed exactly these files. Whether that key means anything is the operator's choice: only
keys they trust make a package *verified*, and what a manifest claims about itself can only lower that.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

from msgspec import Struct

from paddock.core.errors import OperatorError
from paddock.core.printable import printable
from paddock.plugins.package.from_directory import directory_tree
from paddock.plugins.package.rules import DEFAULT_LIMITS, SIGNATURE_FILE
from paddock.plugins.trust.signing_keys import KeyId, PublicKey, decode_base64, key_id, read_private_key

TrustTier = Literal["verified", "community", "personal"]

_SIGNED_PREFIX = b"paddock-signature-v1\n"
TRUST_TIERS: tuple[TrustTier, ...] = ("personal", "community", "verified")


class TrustedKey(Struct, frozen=True):
    """A key that the operator trusts, and their name for its owner."""

    public_key: PublicKey
    name: str


class Signature(Struct, frozen=True):
    """The content of a well-formed `paddock.sig`; not verified yet."""

    public_key: PublicKey
    digest: str
    signature: bytes


class MalformedSignature(Struct, frozen=True):
    """A `paddock.sig` that cannot be parsed."""

    reason: str


class SignatureState(StrEnum):
    """The verification state of a package's signature on this host."""

    VERIFIED = "verified"
    COMMUNITY_SIGNED = "community-signed"
    UNSIGNED = "unsigned"
    MODIFIED = "modified"


class SignatureVerdict(Struct, frozen=True):
    """The state with its reason; the key if the signature is valid, and its name if trusted."""

    state: SignatureState
    reason: str
    key: KeyId | None = None
    signer: str | None = None


def verify_signature(
    tree_digest: str,
    signature: Signature | MalformedSignature | None,
    trusted_keys: Mapping[KeyId, TrustedKey],
) -> SignatureVerdict:
    """Verify the signature of the tree with this digest."""
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


def effective_tier(state: SignatureState, claimed: str | None) -> TrustTier:
    """Return the effective trust tier, whatever the manifest claims; a lower claim is respected."""
    earned: TrustTier = "personal"
    if state is SignatureState.VERIFIED:
        earned = "verified"
    elif state is SignatureState.COMMUNITY_SIGNED:
        earned = "community"
    lower_tiers = TRUST_TIERS[: TRUST_TIERS.index(earned)]
    return lower_tiers[lower_tiers.index(claimed)] if claimed in lower_tiers else earned


def read_signature(root: Path) -> Signature | MalformedSignature | None:
    """Read the signature at the root of a package, or None if it has none."""
    try:
        fd = os.open(root / SIGNATURE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return MalformedSignature(f"{SIGNATURE_FILE} cannot be read: {error.strerror}")
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            return None  # an ordinary directory, covered by the digest
        content = os.read(fd, DEFAULT_LIMITS.signature_bytes + 1)
    finally:
        os.close(fd)
    return parse_signature(content)


def parse_signature(content: bytes) -> Signature | MalformedSignature:
    """Parse the bytes of a `paddock.sig`."""
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
            raw_key, raw_signature = decode_base64(public_key, 32), decode_base64(signature, 64)
            if raw_key is None or raw_signature is None:
                return MalformedSignature(f"{SIGNATURE_FILE} holds a key or signature of the wrong length")
            return Signature(PublicKey(raw_key), digest, raw_signature)
        case _:
            return MalformedSignature(f"{SIGNATURE_FILE} is not a version 1 ed25519 signature")


def sign_package(root: Path, private_key_path: Path) -> Signature:
    """Sign the package in a directory as it would be staged, and write `paddock.sig` there.

    Raises:
        Invalid: the directory could not be installed, so there is nothing to sign.
        OperatorError: the key cannot be used.
    """
    private_key = read_private_key(private_key_path)
    digest = directory_tree(root).digest
    public_key = PublicKey(private_key.public_key().public_bytes_raw())
    signature = Signature(public_key, digest, private_key.sign(_SIGNED_PREFIX + digest.encode()))
    document = {
        "version": 1,
        "algorithm": "ed25519",
        "public_key": base64.b64encode(public_key.raw).decode(),
        "digest": digest,
        "signature": base64.b64encode(signature.signature).decode(),
    }
    _write_atomically(root / SIGNATURE_FILE, json.dumps(document, indent=2).encode() + b"\n")
    return signature


def _is_valid(signature: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public_key = Ed25519PublicKey.from_public_bytes(signature.public_key.raw)
        public_key.verify(signature.signature, _SIGNED_PREFIX + signature.digest.encode(errors="replace"))
    except (InvalidSignature, ValueError):
        return False
    return True


def _write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise OperatorError(
            f"cannot write {path}: {error.strerror}", code="signature.unwritable", hint="see who may write there"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
