"""Mount staging for a root daemon, so that bubblewrap need not run as root.

Bubblewrap runs as user nobody and could not reach a tree below a private directory. The warden, which can, bind-mounts
each tree once more below a directory that nobody can traverse, in a mount namespace that only the warden has. A tree
that the plugin owns is mounted idmapped, with its owner changed to nobody; on disk its files keep their owner.

A stage exists only while its cage is built: bubblewrap then has mounts of its own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from paddock.cage import linux
from paddock.cage.bwrap.pinned_path import PinFunction, PinnedPath
from paddock.cage.spec import NOBODY, BindMount

STAGING_FAILED_CODE = "cage.staging_failed"
# A directory of our own is made where possible; else an empty one is mounted over, in our own namespace alone.
STAGE_DIRECTORIES = tuple(map(Path, ("/run", "/tmp", "/var/tmp")))  # noqa: S108
_DIRECTORY_PREFIX = "paddock-cages-"
FALLBACK_MOUNT_POINTS = tuple(map(Path, ("/mnt", "/media")))


class IdmapUnsupported(OSError):
    """A file system below a tree that a plugin may write to does not support idmapped mounts."""


class MountStages:
    """All stages of one warden. Opening it gives the warden a mount namespace of its own.

    Raises:
        OSError: No mount namespace can be made, or none of these directories is usable.
    """

    def __init__(
        self, directories: Sequence[Path] = STAGE_DIRECTORIES, fallbacks: Sequence[Path] = FALLBACK_MOUNT_POINTS
    ) -> None:
        linux.unshare_mounts()
        # One directory per warden: removing a directory that another warden uses would take its mounts away.
        candidates = [directory / f"{_DIRECTORY_PREFIX}{os.getpid()}" for directory in directories]
        for directory in directories:
            _remove_stale(directory)
        self._directory = _mount_first_usable(candidates, fallbacks)
        self._userns_by_owner: dict[tuple[int, int], int] = {}

    def close(self) -> None:
        """Unmount and remove the directory; the next warden removes what is left."""
        with contextlib.suppress(OSError):
            linux.unmount(str(self._directory))
            if self._directory.name.startswith(_DIRECTORY_PREFIX):
                self._directory.rmdir()

    def open(self, name: str) -> MountStage:
        """Create an empty stage."""
        return MountStage(self._directory / name, self._userns_by_owner)


def _remove_stale(parent: Path) -> None:
    """Remove the directories of wardens that are gone."""
    for directory in parent.glob(f"{_DIRECTORY_PREFIX}*"):
        if not Path(f"/proc/{directory.name.removeprefix(_DIRECTORY_PREFIX)}").exists():
            with contextlib.suppress(OSError):  # not ours, or not empty, so not one of these
                directory.rmdir()


def _mount_first_usable(own_directories: Sequence[Path], fallbacks: Sequence[Path]) -> Path:
    """Mount a tmpfs of ours on the first directory that user nobody can reach."""
    failure = OSError(errno.ENOENT, "no place was found")
    for directory in (*own_directories, *fallbacks):
        try:
            _check_directory(directory, own=directory in own_directories)
            linux.mount_tmpfs(str(directory), "size=1m,mode=711")
        except OSError as error:
            failure = error
        else:
            return directory
    raise failure


def _check_directory(directory: Path, *, own: bool) -> None:
    if own:
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o711)
        status = directory.lstat()
        # Any user may have created something of that name below /tmp.
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise OSError(errno.EEXIST, "is not a directory of ours", str(directory))
    elif any(directory.iterdir()):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(directory))
    if not all(outer.stat().st_mode & stat.S_IXOTH for outer in directory.parents):
        raise OSError(errno.EACCES, "nobody may not pass through", str(directory.parent))


class MountStage:
    """The mounts of one cage, until it is built."""

    def __init__(self, directory: Path, userns_by_owner: dict[tuple[int, int], int]) -> None:
        directory.mkdir(mode=0o711)
        self._directory = directory
        # user namespaces that map an owner to nobody; one per owner, which are few
        self._userns_by_owner = userns_by_owner
        self._mounted: dict[tuple[str, bool], Path] = {}
        self._is_directory: dict[Path, bool] = {}  # whether a mount point is a directory; a stat there could hang

    def mount_source(self, bind: BindMount, pin: PinFunction) -> str:
        """Mount a tree on the stage and return the path for bubblewrap.

        Args:
            bind: The bind mount to prepare.
            pin: Opens its source (`pinned_path.py`): a symlink may have replaced it since the daemon checked it.

        Raises:
            IdmapUnsupported: It is to be writable, and its file system has no idmapped mounts.
            OSError: It does not exist, or cannot be mounted.
        """
        idmapped = bind.writable or bind.plugin_owned
        key = (bind.source, idmapped)
        if key not in self._mounted:
            pinned = pin(bind.source)
            try:
                self._mounted[key] = self._mount_tree(pinned, idmapped=idmapped)
            except IdmapUnsupported as error:
                error.filename = bind.source
                raise
            finally:
                os.close(pinned.descriptor)
        return str(self._mounted[key])

    def _mount_tree(self, pinned: PinnedPath, *, idmapped: bool) -> Path:
        point = self._directory / str(len(self._mounted))
        if pinned.directory:
            point.mkdir()
        else:
            point.touch()
        try:
            if idmapped and pinned.owner != (NOBODY, NOBODY):
                self._mount_idmapped(pinned, point)
            else:
                linux.mount_bind(pinned.descriptor, str(point))
        except BaseException:
            point.rmdir() if pinned.directory else point.unlink()
            raise
        self._is_directory[point] = pinned.directory
        return point

    def close(self) -> None:
        """Unmount and remove everything."""
        for point in self._mounted.values():
            # A mount point that cannot be unmounted cannot be removed either: a file of the host is never touched here.
            with contextlib.suppress(OSError):
                linux.unmount(str(point))
            with contextlib.suppress(OSError):
                point.rmdir() if self._is_directory[point] else point.unlink()
        self._mounted.clear()
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def _mount_idmapped(self, pinned: PinnedPath, point: Path) -> None:
        if pinned.owner not in self._userns_by_owner:
            uid, gid = pinned.owner
            self._userns_by_owner[pinned.owner] = linux.create_mapped_userns(
                f"{uid} {NOBODY} 1\n", f"{gid} {NOBODY} 1\n"
            )
        try:
            linux.mount_bind(pinned.descriptor, str(point), self._userns_by_owner[pinned.owner])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP):
                raise IdmapUnsupported(error.errno, os.strerror(error.errno)) from error
            raise
