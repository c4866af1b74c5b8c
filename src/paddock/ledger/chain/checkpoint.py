"""Checkpoints: what a chain was at some moment, signed, one JSON object a line in a file outside the database.

A checkpoint is over the rows from `from_seq` to `to_seq`: `root` is the Merkle tree over their hashes and `head` the
last of these. `previous` is the hash of the line before, so that no line can be taken out or put in. What is signed is
"paddock.ledger.checkpoint.v1", NUL and the canonical form of everything but the signature.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One line of a file of checkpoints."""

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
        """All but the signature."""
        return {name: getattr(self, name) for name in _FIELDS if name != "signature"}

    def line(self) -> bytes:
        """The line as it stands in the file, without its end."""
        return canonical_bytes({**self.body(), "signature": self.signature})

    def digest(self) -> str:
        """What the next line calls its previous."""
        return sha256(self.line()).hexdigest()


_FIELDS = tuple(Checkpoint.__dataclass_fields__)
_NUMBERS = ("from_seq", "to_seq", "v")


def sign_checkpoint(key: Ed25519PrivateKey, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with its signature."""
    signature = base64.b64encode(key.sign(_SIGNATURE_DOMAIN + canonical_bytes(checkpoint.body()))).decode()
    return Checkpoint(**checkpoint.body(), signature=signature)


def is_signed_by(checkpoint: Checkpoint, public_keys: Iterable[bytes]) -> bool:
    """Whether the holder of one of the keys signed it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content = _SIGNATURE_DOMAIN + canonical_bytes(checkpoint.body())
    for raw in public_keys:
        try:
            Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(checkpoint.signature), content)
        except (InvalidSignature, ValueError):
            continue
        return True
    return False


def parse_checkpoint(line: bytes) -> Checkpoint | None:
    """The checkpoint in a line, or None where it is none, or not written as we write it."""
    try:
        read = json.loads(line) if len(line) <= _MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or set(cast("dict[str, Any]", read)) != set(_FIELDS):
        return None
    fields = cast("dict[str, Any]", read)
    if any(type(fields[name]) is not (int if name in _NUMBERS else str) for name in _FIELDS):
        return None
    try:
        found = Checkpoint(**fields)
        return found if found.v == 1 and found.line() == line else None
    except PaddockError:
        return None


def checkpoint_file(state: Path, tenant: str) -> Path:
    """Where the checkpoints of a tenant's chain are."""
    name = quote(tenant, safe="")
    if len(name) > _MAX_FILE_NAME_BYTES:
        name = f"{_HASHED_NAME_PREFIX}{sha256(tenant.encode()).hexdigest()}"
    return state / "ledger" / f"{name}{_FILE_SUFFIX}"


def tenants_with_checkpoints(state: Path) -> set[str]:
    """Everyone who has a file of checkpoints, by the names of the files.

    Raises:
        HostError: `ledger.checkpoints`, when one cannot be read.
    """
    found: set[str] = set()
    for file in (state / "ledger").glob(f"*{_FILE_SUFFIX}"):
        name = unquote(file.name.removesuffix(_FILE_SUFFIX))
        lines = read_checkpoint_lines(file)
        if name.startswith(
            _HASHED_NAME_PREFIX
        ):  # of a name that is too long; its lines say it, or else it stands as it is
            points = [
                point
                for point in map(parse_checkpoint, lines)
                if point and checkpoint_file(state, point.tenant) == file
            ]
            name = points[0].tenant if points else name
        if lines:
            found.add(name)
    return found


def tenants_in_file_names(state: Path) -> set[str]:
    """Those of them whom the names of the files tell, without a look at what is in them."""
    names = [
        file.name.removesuffix(_FILE_SUFFIX)
        for file in (state / "ledger").glob(f"*{_FILE_SUFFIX}")
        if _may_contain_checkpoints(file)
    ]
    return {unquote(name) for name in names if not name.startswith(_HASHED_NAME_PREFIX)}


def _may_contain_checkpoints(file: Path) -> bool:
    """Whether checkpoints may be in a file. One that cannot be looked at is no reason to look at no other."""
    try:
        return file.stat().st_size > 0
    except OSError:
        return True


def last_signers(state: Path) -> set[str]:
    """The keys that the last checkpoints of all chains are signed with.

    Raises:
        HostError: `ledger.checkpoints`, when a file cannot be read, or ends with what is no checkpoint.
    """
    lasts = [last_checkpoint_in(checkpoint_file(state, tenant)) for tenant in tenants_with_checkpoints(state)]
    return {last.key_id for last in lasts if last is not None}


def last_checkpoint_in(file: Path) -> Checkpoint | None:
    """The last checkpoint in a file; None where there is none.

    Raises:
        HostError: `ledger.checkpoints`, when the file ends with what is none.
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
    """The lines of a copy, which may have lost its last end of line on the way.

    Raises:
        HostError: `ledger.checkpoints`, when it cannot be read.
    """
    return [line for line in _read_file(file).splitlines() if line]


def read_checkpoint_lines(file: Path) -> list[bytes]:
    """The lines of a file of checkpoints; none where there is no file.

    A last line without an end was never finished: power went, or the disk was full.

    Raises:
        HostError: `ledger.checkpoints`, when it cannot be read.
    """
    return _read_file(file).split(b"\n")[:-1]


def read_last_checkpoint(descriptor: int, file: Path) -> tuple[Checkpoint | None, int]:
    """The last whole line of an open file, and the place behind it.

    Raises:
        HostError: `ledger.checkpoints`, when the line is no checkpoint: somebody changed it.
    """
    size = os.fstat(descriptor).st_size
    begin = max(0, size - 2 * _MAX_LINE_BYTES)
    content = os.pread(descriptor, size - begin, begin)
    whole = content.rfind(b"\n") + 1
    if not whole:
        return None, 0
    found = parse_checkpoint(content[: whole - 1].rsplit(b"\n", 1)[-1])
    if found is None:
        raise HostError(
            f"the last line of {file} is no checkpoint",
            code="ledger.checkpoints",
            hint="paddock ledger verify; then move the file aside, and keep it",
        )
    return found, begin + whole


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unusable_file_error(file, error) from error


def _unusable_file_error(file: Path, error: OSError) -> HostError:
    return HostError(f"the checkpoints in {file} cannot be used: {error.strerror}", code="ledger.checkpoints")
