"""Checkpoints: the signed state of a chain, one JSON object per line in a file outside the database.

A checkpoint covers the rows from `from_seq` to `to_seq`: `root` is the Merkle root over their hashes and `head` is the
last of these. `previous` is the hash of the previous line, so that lines can be neither removed nor inserted. The
signature is over "paddock.ledger.checkpoint.v1", NUL and the canonical form of everything but the signature.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.canonical import canonical_bytes
from paddock.core.errors import HostError, PaddockError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NO_PREVIOUS = "0" * 64

_SIGNATURE_DOMAIN = b"paddock.ledger.checkpoint.v1\0"
_MAX_FILE_NAME_BYTES = 200
_HASHED_NAME_PREFIX = "sha256-"
_FILE_SUFFIX = ".checkpoints.jsonl"
_MAX_LINE_BYTES = 16 * 1024


class Checkpoint(Struct, frozen=True):
    """One line of a checkpoint file."""

    tenant: str
    node: str
    from_seq: int
    to_seq: int
    root: str
    head: str
    previous: str
    at: str
    key_id: str
    signature: str = ""
    v: int = 1

    def body(self) -> dict[str, Any]:
        """Return all fields but the signature."""
        return {name: getattr(self, name) for name in _FIELDS if name != "signature"}

    def line(self) -> bytes:
        """Return the line as written to the file, without its line end."""
        return canonical_bytes({**self.body(), "signature": self.signature})

    def digest(self) -> str:
        """Return the hash that the next line has as `previous`."""
        return sha256(self.line()).hexdigest()


_FIELDS = Checkpoint.__struct_fields__
_NUMBERS = ("from_seq", "to_seq", "v")


def sign_checkpoint(key: Ed25519PrivateKey, checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with its signature."""
    signature = base64.b64encode(key.sign(_SIGNATURE_DOMAIN + canonical_bytes(checkpoint.body()))).decode()
    return Checkpoint(**checkpoint.body(), signature=signature)


def is_signed_by(checkpoint: Checkpoint, public_keys: Iterable[bytes]) -> bool:
    """Whether the checkpoint has a valid signature of one of the keys."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content = _SIGNATURE_DOMAIN + canonical_bytes(checkpoint.body())
    for public_key in public_keys:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(base64.b64decode(checkpoint.signature), content)
        except (InvalidSignature, ValueError):
            continue
        return True
    return False


def parse_checkpoint(line: bytes) -> Checkpoint | None:
    """Parse a line. Returns None where it is not a checkpoint in our exact format."""
    try:
        value = json.loads(line) if len(line) <= _MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != set(_FIELDS):
        return None
    fields = cast("dict[str, Any]", value)
    if any(type(fields[name]) is not (int if name in _NUMBERS else str) for name in _FIELDS):
        return None
    try:
        checkpoint = Checkpoint(**fields)
        return checkpoint if checkpoint.v == 1 and checkpoint.line() == line else None
    except PaddockError:
        return None


def checkpoint_file(state: Path, tenant: str) -> Path:
    """Return the path of a tenant's checkpoint file."""
    name = quote(tenant, safe="")
    if len(name) > _MAX_FILE_NAME_BYTES:
        name = f"{_HASHED_NAME_PREFIX}{sha256(tenant.encode()).hexdigest()}"
    return state / "ledger" / f"{name}{_FILE_SUFFIX}"


def tenants_with_checkpoints(state: Path) -> set[str]:
    """Return every tenant with a checkpoint file, according to the file names.

    Raises:
        HostError: `ledger.checkpoints`, when a file cannot be read.
    """
    tenants: set[str] = set()
    for file in (state / "ledger").glob(f"*{_FILE_SUFFIX}"):
        name = unquote(file.name.removesuffix(_FILE_SUFFIX))
        lines = read_checkpoint_lines(file)
        if name.startswith(_HASHED_NAME_PREFIX):  # the tenant's name is too long for a file name; the lines contain it
            checkpoints = [
                checkpoint
                for checkpoint in map(parse_checkpoint, lines)
                if checkpoint and checkpoint_file(state, checkpoint.tenant) == file
            ]
            name = checkpoints[0].tenant if checkpoints else name
        if lines:
            tenants.add(name)
    return tenants


def tenants_in_file_names(state: Path) -> set[str]:
    """Return the tenants that file names reveal, without reading the files."""
    names = [
        file.name.removesuffix(_FILE_SUFFIX)
        for file in (state / "ledger").glob(f"*{_FILE_SUFFIX}")
        if _may_contain_checkpoints(file)
    ]
    return {unquote(name) for name in names if not name.startswith(_HASHED_NAME_PREFIX)}


def _may_contain_checkpoints(file: Path) -> bool:
    """Whether a file may contain checkpoints. One that cannot be examined counts, and stops no other."""
    try:
        return file.stat().st_size > 0
    except OSError:
        return True


def last_signers(state: Path) -> set[str]:
    """Return the ids of the keys that signed the last checkpoint of each chain.

    Raises:
        HostError: `ledger.checkpoints`, when a file cannot be read, or does not end with a checkpoint.
    """
    checkpoints = [last_checkpoint_in(checkpoint_file(state, tenant)) for tenant in tenants_with_checkpoints(state)]
    return {checkpoint.key_id for checkpoint in checkpoints if checkpoint is not None}


def last_checkpoint_in(file: Path) -> Checkpoint | None:
    """Return the last checkpoint of a file; None if there is none.

    Raises:
        HostError: `ledger.checkpoints`, when the last line is not a checkpoint.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return read_last_checkpoint(descriptor, file)[0]
    finally:
        os.close(descriptor)


def read_copy_lines(file: Path) -> list[bytes]:
    """Return the lines of a copy, which may have lost its final line end.

    Raises:
        HostError: `ledger.checkpoints`, when it cannot be read.
    """
    return [line for line in _read_file(file).splitlines() if line]


def read_checkpoint_lines(file: Path) -> list[bytes]:
    """Return the lines of a checkpoint file; none if there is no file.

    A last line without a line end was never finished (power loss, full disk) and is left out.

    Raises:
        HostError: `ledger.checkpoints`, when it cannot be read.
    """
    return _read_file(file).split(b"\n")[:-1]


def read_last_checkpoint(descriptor: int, file: Path) -> tuple[Checkpoint | None, int]:
    """Return the last complete line of an open file, and the offset behind it.

    Raises:
        HostError: `ledger.checkpoints`, when the line is not a checkpoint: somebody changed it.
    """
    size = os.fstat(descriptor).st_size
    start = max(0, size - 2 * _MAX_LINE_BYTES)
    content = os.pread(descriptor, size - start, start)
    complete_bytes = content.rfind(b"\n") + 1
    if not complete_bytes:
        return None, 0
    checkpoint = parse_checkpoint(content[: complete_bytes - 1].rsplit(b"\n", 1)[-1])
    if checkpoint is None:
        raise HostError(
            f"the last line of {file} is not a checkpoint",
            code="ledger.checkpoints",
            hint="verify the ledger, then move the file aside and keep it",
            action=Action.of("ledger.verify"),
        )
    return checkpoint, start + complete_bytes


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unusable_file_error(file, error) from error


def _unusable_file_error(file: Path, error: OSError) -> HostError:
    return HostError(f"the checkpoints in {file} cannot be used: {error.strerror}", code="ledger.checkpoints")
