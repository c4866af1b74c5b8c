"""The key that signs checkpoints: created when first needed, private to this home, with the public key beside it.

A lost key must be declared before a new one is created: its public key is renamed to `ledger-ID.pub`. The new key then
continues where the old one ended, and both public keys are needed to verify the chain.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.core.errors import HostError
from paddock.ledger.chain.checkpoint import last_signers
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, create_private_file, sync_directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_MAX_KEY_FILE_BYTES = 16 * 1024
_KEY_PREFIX = "ed25519:"


def private_key_file(state: Path) -> Path:
    return state / "keys" / "ledger.key"


def public_key_file(state: Path) -> Path:
    return state / "keys" / "ledger.pub"


def replaced_key_file(state: Path, lost: str) -> Path:
    """Return where the public key of a lost key belongs."""
    return state / "keys" / f"ledger-{lost}.pub"


def public_key_files(state: Path) -> list[Path]:
    """Return the public key of this home and those of replaced keys."""
    file = public_key_file(state)
    return [*([file] if file.exists() else []), *sorted(file.parent.glob("ledger-*.pub"))]


def key_id(raw: bytes) -> str:
    """Return a short fingerprint of a public key, the same as `paddock key show` prints."""
    return sha256(b"paddock-key-v1\n" + raw).hexdigest()[:16]


def load_signing_key(state: Path) -> Ed25519PrivateKey:
    """Load this home's private key, or create the first one. Its public key file exists when this returns.

    Raises:
        HostError: `ledger.key`, when it cannot be read or created, others can read it, or it is lost.
        OSError: the disk is full.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    file = private_key_file(state)
    try:
        if not file.exists():
            _require_no_lost_key(state)
            _generate_key(state)
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise _unusable_key_error(file, "other users can read it", hint=f"chmod 600 {file}")
            key = serialization.load_pem_private_key(opened.read(_MAX_KEY_FILE_BYTES), password=None)
        if isinstance(key, Ed25519PrivateKey):
            _write_public_key(state, key)
            return key
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, OSError) and error.errno in OUT_OF_SPACE_ERRNOS:
            raise
        raise _unusable_key_error(file, str(error)) from error
    raise _unusable_key_error(file, "it is no Ed25519 key")


def require_successor(state: Path, last_signer: str, new_signer: str) -> None:
    """Allow a new signer only if the last one was declared lost: verification needs its public key.

    Raises:
        HostError: `ledger.key`, when it was not.
    """
    if last_signer != new_signer and last_signer not in _replaced_key_ids(state):
        raise _lost_key_error(state, last_signer)


def read_public_key(file: Path) -> bytes:
    """Return the 32 bytes of a public key, from PEM or from `ed25519:BASE64`.

    Raises:
        HostError: `ledger.key`, when the file holds no such key.
    """
    import base64

    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_KEY_FILE_BYTES).strip()
        if content.startswith(_KEY_PREFIX.encode()):
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(content[len(_KEY_PREFIX) :], validate=True))
        else:
            key = serialization.load_pem_public_key(content)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no public key"
        raise _unusable_key_error(file, reason) from error
    if not isinstance(key, Ed25519PublicKey):
        raise _unusable_key_error(file, "it is no Ed25519 key")
    return key.public_bytes_raw()


def _require_no_lost_key(state: Path) -> None:
    """Refuse to create a key where one existed: what it signed could silently no longer be verified."""
    if public_key_file(state).exists():
        raise _lost_key_error(state, key_id(read_public_key(public_key_file(state))))
    for last in last_signers(state):
        require_successor(state, last, "")


def _replaced_key_ids(state: Path) -> set[str]:
    return {key_id(read_public_key(file)) for file in public_key_files(state) if file != public_key_file(state)}


def _generate_key(state: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    folder = private_key_file(state).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f".ledger.key.{os.getpid()}"
    try:
        temporary.unlink(missing_ok=True)  # of a process that was killed
        create_private_file(temporary, private)
        os.link(temporary, private_key_file(state))  # fails if another process was faster; its key counts then
    except FileExistsError:
        return
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(folder)


def _write_public_key(state: Path, key: Ed25519PrivateKey) -> None:
    """Write the public key file if it is missing, for instance because the disk was full before.

    A different public key stays: it may be the only one that can verify the checkpoints so far.
    """
    from cryptography.hazmat.primitives import serialization

    file, public = public_key_file(state), key.public_key()
    if file.exists():
        existing = read_public_key(file)
        if existing != public.public_bytes_raw():
            raise _lost_key_error(state, key_id(existing))
        return
    temporary = file.with_name(f".ledger.pub.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)  # of a process that was killed
        create_private_file(
            temporary, public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(file.parent)


def _lost_key_error(state: Path, key: str) -> HostError:
    replaced = replaced_key_file(state, key)
    public = public_key_file(state)
    available = public.exists() and key_id(read_public_key(public)) == key
    instruction = f"mv {public} {replaced}" if available else f"put its public half, {key}, into {replaced}"
    return HostError(
        f"the ledger's key {private_key_file(state)} is not the one that signed before ({key})",
        code="ledger.key",
        hint=f"put that one back; if it is lost for good, {instruction}: then a new key goes on",
    )


def _unusable_key_error(file: Path, reason: str, hint: str = "") -> HostError:
    return HostError(f"the ledger's key {file} cannot be used: {reason}", code="ledger.key", hint=hint)
