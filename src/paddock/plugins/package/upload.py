"""Receives an uploaded package file in chunks, written to disk from the first byte on and limited in size."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from paddock.core.action import Action
from paddock.core.errors import HostError, Invalid, Problem
from paddock.plugins.package.rules import DEFAULT_LIMITS, format_bytes
from paddock.plugins.package.stage import open_staging_directory


class UploadedFile:
    """The file being received. Writing blocks; call it from a worker thread."""

    def __init__(self, path: Path, file: BinaryIO, max_bytes: int) -> None:
        self.path = path
        self.size = 0
        self._file = file
        self._max_bytes = max_bytes

    def write(self, chunk: bytes) -> None:
        """Append a chunk.

        Raises:
            Invalid: the file is larger than a package may be.
            HostError: the disk refuses.
        """
        self.size += len(chunk)
        if self.size > self._max_bytes:
            problem = Problem("", f"holds more than {format_bytes(self._max_bytes)}", code="package.too_big")
            raise Invalid("the package is too big", [problem], code="package.unsafe")
        try:
            self._file.write(chunk)
        except OSError as error:
            raise _disk_error(error) from error

    def finish(self) -> None:
        """Flush the complete file so that it can be read.

        Raises:
            HostError: the disk refuses.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise _disk_error(error) from error


@contextmanager
def open_upload(
    staging_root: Path, max_bytes: int = DEFAULT_LIMITS.archive_bytes
) -> Generator[UploadedFile, None, None]:
    """Create the file for as long as the block runs; a killed host's file is swept with all other staging.

    Raises:
        HostError: the disk refuses.
    """
    with open_staging_directory(staging_root) as directory:
        path = directory / "package"
        try:
            file = path.open("xb")
        except OSError as error:
            raise _disk_error(error) from error
        try:
            yield UploadedFile(path, file, max_bytes)
        finally:
            with suppress(OSError):  # `write` or `finish` already reported what could not be written
                file.close()


def _disk_error(error: OSError) -> HostError:
    return HostError(
        f"cannot write the uploaded file: {error.strerror}",
        code="staging.disk",
        hint="check free space and permissions",
        action=Action.of("host.check"),
    )
