"""A package file that somebody sends, piece by piece: on disk from its first byte on, and no bigger than it may be."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from paddock.core.errors import HostError, Invalid, Problem
from paddock.plugins.package.rules import DEFAULT_LIMITS, format_bytes
from paddock.plugins.package.stage import open_staging_directory


class UploadedFile:
    """The file. Writing blocks; call it from a worker thread."""

    def __init__(self, path: Path, file: BinaryIO, most: int) -> None:
        self.path = path
        self.size = 0
        self._file = file
        self._most = most

    def write(self, piece: bytes) -> None:
        """Add to it.

        Raises:
            Invalid: it has more than a package may have.
            HostError: the disk refuses.
        """
        self.size += len(piece)
        if self.size > self._most:
            problem = Problem("", f"holds more than {format_bytes(self._most)}", code="package.too_big")
            raise Invalid("the package is too big", [problem], code="package.unsafe")
        try:
            self._file.write(piece)
        except OSError as error:
            raise _disk_error(error) from error

    def finish(self) -> None:
        """All of it is here, and can be read.

        Raises:
            HostError: the disk refuses.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise _disk_error(error) from error


@contextmanager
def open_upload(staging_root: Path, most: int = DEFAULT_LIMITS.archive_bytes) -> Generator[UploadedFile, None, None]:
    """A new file for as long as the block runs; what a killed host leaves is swept with all else that is staged.

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
            yield UploadedFile(path, file, most)
        finally:
            with suppress(OSError):  # what could not be written was said by `write` or `finish`
                file.close()


def _disk_error(error: OSError) -> HostError:
    return HostError(
        f"cannot keep the file that was sent: {error.strerror}",
        code="staging.disk",
        hint="check free space and permissions (paddock doctor)",
    )
