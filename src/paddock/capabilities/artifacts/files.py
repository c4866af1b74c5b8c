"""The files of artifacts, named by their hash, in one folder per tenant.

    <directory>/of-<tenant>/ab/abcdef…  committed
    <directory>/drafts/…                still being written; drafts that a killed host left are deleted after a day

All of it blocks and is called from worker threads.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock

from paddock.capabilities.artifacts.address import is_digest
from paddock.capabilities.sql.paths import safe_path_name
from paddock.core.errors import HostError, NotFound, StoreUnavailable
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, sync_directory

MAX_DRAFT_AGE_S = 86_400.0


class PendingFile:
    """A draft that is still being written. Locked: one thread may discard what another writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._lock = Lock()
        self._hash = sha256()
        self._descriptor: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, chunk: bytes | memoryview) -> None:
        """Append a chunk.

        Raises:
            StoreUnavailable: the disk rejects it.
        """
        with self._lock:
            if self._descriptor is None:
                return  # discarded meanwhile
            self._hash.update(chunk)
            self.size += len(chunk)
            rest = memoryview(chunk)
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError as error:
                raise _unavailable_error(error) from error

    def finish(self) -> None:
        """Sync and close the file, so that it survives a power cut.

        Raises:
            StoreUnavailable: the disk rejects it.
        """
        with self._lock:
            if self._descriptor is None:
                return
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise _unavailable_error(error) from error
            finally:
                self._close()

    def discard(self) -> None:
        """Delete the draft. Harmless once it was committed."""
        with self._lock:
            self._close()
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class ArtifactFiles:
    """All files below one directory, readable by this user only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._drafts = self._directory / "drafts"

    def create_pending(self) -> PendingFile:
        """Create an empty draft.

        Raises:
            StoreUnavailable: there is no space or no permission.
        """
        try:
            self._drafts.mkdir(mode=0o700, parents=True, exist_ok=True)
            return PendingFile(self._drafts / token_hex(16))
        except OSError as error:
            raise _unavailable_error(error) from error

    def commit(self, draft: PendingFile, tenant: str) -> None:
        """Move a finished draft to its place by hash. An existing file is replaced by its equal."""
        path = self._path(tenant, draft.digest)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.path.rename(path)
            sync_directory(path.parent)
        except OSError as error:
            raise _unavailable_error(error) from error

    def open(self, tenant: str, digest: str) -> int:
        """Open an artifact for reading; the caller closes the descriptor.

        Raises:
            NotFound: it is gone.
        """
        try:
            return os.open(self._path(tenant, digest), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise NotFound("the bytes of this artifact are gone", code="artifacts.missing") from error
            raise HostError(f"an artifact cannot be read: {error.strerror}", code="artifacts.unreadable") from error

    def check_size(self, tenant: str, digest: str, size: int) -> None:
        """Check that an artifact can be read and has its size.

        Raises:
            NotFound: it is gone.
            HostError: it cannot be read, or was changed.
        """
        descriptor = self.open(tenant, digest)
        try:
            if os.fstat(descriptor).st_size != size:
                raise damaged_artifact_error()
        finally:
            os.close(descriptor)

    def delete(self, artifacts: Iterable[tuple[str, str]]) -> None:
        """Delete these, each a tenant and a hash. Missing ones are ignored."""
        for tenant, digest in artifacts:
            with suppress(OSError):
                self._path(tenant, digest).unlink(missing_ok=True)

    def delete_old_pending(self) -> None:
        """Delete old drafts, whose writers are gone."""
        before = time.time() - MAX_DRAFT_AGE_S
        with suppress(FileNotFoundError):
            for draft in self._drafts.iterdir():
                with suppress(OSError):
                    if draft.stat().st_mtime < before:
                        draft.unlink()

    def _path(self, tenant: str, digest: str) -> Path:
        if not is_digest(digest):
            raise HostError(f"{digest[:80]!r} is no hash of an artifact", code="artifacts.name")
        # The prefix keeps a tenant named "drafts" apart from the folder of drafts.
        return self._directory / f"of-{safe_path_name(tenant)}" / digest[:2] / digest


def artifacts_directory(data: Path) -> Path:
    """Return the artifacts directory of a host with this data directory."""
    return data / "artifacts"


def _unavailable_error(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"artifacts cannot be kept: {error.strerror}",
        code="store.full" if error.errno in OUT_OF_SPACE_ERRNOS else "artifacts.unavailable",
        hint="check the space and permissions of the data directory: df -h",
    )


def damaged_artifact_error() -> HostError:
    """Build the error for an artifact whose bytes are not those of its address."""
    return HostError(
        "the bytes of this artifact were changed on the disk", code="artifacts.damaged", hint="check the disk"
    )
