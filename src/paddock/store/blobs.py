"""Content-addressed blobs: packages, and whatever else is too big for a row.

A blob's name is the SHA-256 of its bytes, so putting one twice is putting it once, and reading checks that the bytes
are the ones that were put. The embedded store keeps blobs as files; PostgreSQL keeps them as rows, where every node
finds them.

All of it blocks, as files do: the daemon calls it from a worker thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Protocol

from paddock.core.clock import Clock
from paddock.core.errors import CallerError, HostError, NotFound, StoreUnavailable
from paddock.store.database import DirectDatabase, Transaction
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, sync_directory

MAX_BLOB_BYTES = 256 * 1024 * 1024
SWEEP_GRACE = timedelta(hours=1)

_CHUNK_BYTES = 1024 * 1024
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


class Blobs(Protocol):
    """A store of blobs."""

    def put(self, data: bytes | BinaryIO | Path) -> str:
        """Store these bytes and return their name, `sha256:…`. Durable when it returns.

        Raises:
            CallerError: `blob.too_large` beyond `MAX_BLOB_BYTES`.
        """
        ...

    def open(self, digest: str) -> BinaryIO:
        """The bytes of that name, already verified. The caller closes it.

        Raises:
            NotFound: `blob.missing`.
            HostError: `blob.corrupt` when the bytes are no longer the ones that were put.
        """
        ...

    def has(self, digest: str) -> bool: ...

    def delete(self, digest: str) -> None:
        """Delete it. Does nothing when it does not exist."""
        ...

    def sweep(self, keep: Container[str]) -> None:
        """Delete everything else, and what killed writers left. Only while nothing is being put."""
        ...


class FileBlobs:
    """Blobs as files below one directory, `ab/abcdef…`, readable by their owner only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, data: bytes | BinaryIO | Path) -> str:
        try:
            return self._put(data)
        except OSError as error:
            raise StoreUnavailable(
                f"a blob cannot be kept in {self._directory}: {error.strerror}",
                code="store.full" if error.errno in OUT_OF_SPACE_ERRNOS else None,
                hint=f"check the space and permissions there: df -h {self._directory}",
            ) from error

    def _put(self, data: bytes | BinaryIO | Path) -> str:
        _make_directory(self._directory)
        # Written next to its final path under a name of its own: a rename within one file system is atomic.
        draft = self._directory / f"draft-{token_hex(8)}"
        try:
            digest = sha256()
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                for chunk in _chunks(data):
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            name = f"sha256:{digest.hexdigest()}"
            path = self._path(name)
            _make_directory(path.parent)
            # Replaces an equal one too, which repairs it if it was damaged.
            draft.rename(path)
            sync_directory(path.parent)
        finally:
            draft.unlink(missing_ok=True)
        return name

    def open(self, digest: str) -> BinaryIO:
        try:
            file = self._path(digest).open("rb")
        except FileNotFoundError as error:
            raise _missing_error(digest) from error
        except OSError as error:
            raise HostError(f"the blob {digest} cannot be read: {error.strerror}", code="blob.unreadable") from error
        try:
            actual = sha256()
            while chunk := file.read(_CHUNK_BYTES):
                actual.update(chunk)
            _verify_digest(digest, actual.hexdigest())
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def has(self, digest: str) -> bool:
        return self._path(digest).is_file()

    def delete(self, digest: str) -> None:
        self._path(digest).unlink(missing_ok=True)

    def sweep(self, keep: Container[str]) -> None:
        if not self._directory.is_dir():
            return
        for draft in self._directory.glob("draft-*"):
            draft.unlink(missing_ok=True)
        for file in self._directory.glob("??/*"):
            if f"sha256:{file.name}" not in keep:
                file.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        hexadecimal = _parse_digest(digest)
        return self._directory / hexadecimal[:2] / hexadecimal


class RowBlobs:
    """Blobs as rows, one each, in a database that other nodes use too."""

    def __init__(self, database: DirectDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, data: bytes | BinaryIO | Path) -> str:
        content = b"".join(_chunks(data))
        digest = f"sha256:{sha256(content).hexdigest()}"
        put_at = self._clock.now().isoformat()
        self._database.write(
            lambda tx: tx.execute(
                "INSERT INTO blobs (digest, size, data, put_at) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (digest) DO UPDATE "
                "SET size = excluded.size, data = excluded.data, put_at = excluded.put_at",
                (digest, len(content), content, put_at),
            )
        )
        return digest

    def open(self, digest: str) -> BinaryIO:
        _parse_digest(digest)
        row = self._database.read(lambda tx: tx.one("SELECT data FROM blobs WHERE digest = ?", (digest,)))
        if row is None:
            raise _missing_error(digest)
        _verify_digest(digest, sha256(row["data"]).hexdigest())
        return BytesIO(row["data"])

    def has(self, digest: str) -> bool:
        _parse_digest(digest)
        row = self._database.read(lambda tx: tx.one("SELECT 1 AS found FROM blobs WHERE digest = ?", (digest,)))
        return row is not None

    def delete(self, digest: str) -> None:
        _parse_digest(digest)
        self._database.write(lambda tx: tx.execute("DELETE FROM blobs WHERE digest = ?", (digest,)))

    def sweep(self, keep: Container[str]) -> None:
        # A blob that was put recently may be waiting for the row that will name it, on whatever node.
        before = (self._clock.now() - SWEEP_GRACE).isoformat()
        old = self._database.read(lambda tx: tx.all("SELECT digest FROM blobs WHERE put_at < ?", (before,)))
        unused = [row["digest"] for row in old if row["digest"] not in keep]

        def unit(tx: Transaction) -> None:
            for digest in unused:
                tx.execute("DELETE FROM blobs WHERE digest = ? AND put_at < ?", (digest, before))

        if unused:
            self._database.write(unit)


def open_blobs(database: DirectDatabase, directory: Path, clock: Clock) -> Blobs:
    """The blob store for this database: rows on PostgreSQL, else files below the directory."""
    return RowBlobs(database, clock) if database.engine == "postgresql" else FileBlobs(directory)


def _chunks(data: bytes | BinaryIO | Path) -> Iterator[bytes]:
    with _open_stream(data) as stream:
        total = 0
        while chunk := stream.read(_CHUNK_BYTES):
            total += len(chunk)
            if total > MAX_BLOB_BYTES:
                raise CallerError(
                    f"that is more than the {MAX_BLOB_BYTES // 1024**2} MiB a blob may have", code="blob.too_large"
                )
            yield chunk


@contextmanager
def _open_stream(data: bytes | BinaryIO | Path) -> Generator[BinaryIO, None, None]:
    match data:
        case bytes():
            yield BytesIO(data)
        case Path():
            with data.open("rb") as file:
                yield file
        case _:
            yield data  # the caller closes it


def _parse_digest(digest: str) -> str:
    """The hex digits of a blob's name. Anything else is refused here, before it could become part of a path."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise CallerError("that is not the name of a blob", code="blob.name", hint="names look like sha256:0a1b…")
    return match[1]


def _verify_digest(digest: str, actual: str) -> None:
    if digest != f"sha256:{actual}":
        raise HostError(
            f"the blob {digest} is damaged",
            code="blob.corrupt",
            hint="install what it belongs to again",
            details={"digest": digest, "actual": f"sha256:{actual}"},
        )


def _missing_error(digest: str) -> NotFound:
    return NotFound(f"there is no blob {digest}", code="blob.missing")


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return
    sync_directory(directory.parent)
