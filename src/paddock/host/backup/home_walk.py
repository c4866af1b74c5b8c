"""Walks the files of a section without following a link, not even one that a plugin puts there meanwhile.

A plugin writes what it likes into its own folder while it is copied. So every directory is opened by its name in the
one above it, and what cannot be copied there is skipped and reported: no plugin can prevent a backup.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

# In plugins' own folders. A path that just fits into this home might not fit into the one that it is restored to.
_MAX_DEPTH: Final = 64
_MAX_NAME_BYTES: Final = 2048
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Skip = Callable[[str], object]


class FoundFile(Struct, frozen=True):
    """A file, directory or link. It can be opened until the next one is requested.

    Attributes:
        path: Where it is.
        name: Its path with its section, as in `data/paddock.db`.
        status: What it was when it was found.
        of_plugin: Whether it is in a folder that a plugin writes to.
    """

    path: Path
    name: str
    status: os.stat_result
    of_plugin: bool
    _directory: int
    _note_skipped: Skip

    def open(self) -> BinaryIO:
        """Open a regular file.

        Raises:
            OSError: it cannot be opened, or is another kind of file by now.
        """
        descriptor = os.open(self.path.name, _FLAGS, dir_fd=self._directory)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(0, "it is not a regular file any more", str(self.path))
        return os.fdopen(descriptor, "rb")

    def read_link(self) -> str:
        """Return the target of a link."""
        return os.readlink(self.path.name, dir_fd=self._directory)

    @contextmanager
    def errors(self) -> Generator[None]:
        """Skip what was removed meanwhile, and what a plugin made unreadable."""
        try:
            yield
        except OSError as error:
            self.skip(error)

    def skip(self, error: OSError) -> None:
        """Skip it because of an error, or raise that."""
        if isinstance(error, FileNotFoundError):
            return  # as when a person removes a plugin
        if not self.of_plugin or error.filename is None:  # a full disk names no file
            raise error
        self._note_skipped(self.name)


def walk(root: Path, name: str, is_wanted: Callable[[Path], bool], skip: Skip) -> Generator[FoundFile]:
    """Yield everything below a section that is wanted, each directory before what is in it.

    Args:
        root: The directory of the section.
        name: The name of the section.
        is_wanted: Whether a path is part of the backup.
        skip: Called with the name of what could not be copied.

    Raises:
        OSError: something outside plugins' own folders cannot be read.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # never made
    try:
        yield from _walk_directory(descriptor, root, name, is_wanted, skip)
    finally:
        os.close(descriptor)


def _walk_directory(
    directory: int, path: Path, name: str, is_wanted: Callable[[Path], bool], skip: Skip
) -> Generator[FoundFile]:
    for child in sorted(os.listdir(directory)):
        if not is_wanted(path / child):
            continue
        child_name = f"{name}/{child}"
        of_plugin = _is_in_plugin_folder(child_name)
        if of_plugin and (child_name.count("/") > _MAX_DEPTH or len(os.fsencode(child_name)) > _MAX_NAME_BYTES):
            skip(child_name)
            continue
        try:
            status = os.stat(child, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue  # removed meanwhile
        found = FoundFile(path / child, child_name, status, of_plugin, directory, skip)
        if not stat.S_ISDIR(status.st_mode):
            yield found
            continue
        try:
            descriptor = os.open(child, _FLAGS | os.O_DIRECTORY, dir_fd=directory)
        except OSError as error:
            found.skip(error)
            continue
        try:
            yield found
            yield from _walk_directory(descriptor, path / child, child_name, is_wanted, skip)
        finally:
            os.close(descriptor)


def _is_in_plugin_folder(name: str) -> bool:
    """Whether a name is the folder that `config:` stands for, of any tenant, or below it."""
    match name.split("/"):
        case ["data", "files", _, *_] | ["data", "tenants", _, "files", _, *_]:
            return True
        case _:
            return False
