"""Where a root daemon lays out what a cage will see, so that bubblewrap need not be root.

Bubblewrap runs as nobody and could not reach a tree below a private directory. The warden, which can, shows each tree
once more at a place nobody may pass through, in a mount namespace that only the warden has. A tree that is the
plugin's own is shown with its owner changed to nobody; on the disk its files keep the owner they had.

A stage stands only while its cage is built: bubblewrap then has mounts of its own.
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
# One of ours is made where that is possible; else something that is empty is covered, in our own namespace alone.
STAGE_DIRECTORIES = tuple(map(Path, ("/run", "/tmp", "/var/tmp")))  # noqa: S108
_DIRECTORY_PREFIX = "paddock-cages-"
FALLBACK_MOUNT_POINTS = tuple(map(Path, ("/mnt", "/media")))


class IdmapUnsupported(OSError):
    """A file system below a tree that a plugin may write to cannot show it under another owner."""


class MountStages:
    """All stages of one warden. Opening it gives the warden a mount namespace of its own.

    Raises:
        OSError: none can be made, or none of these places can be used.
    """

    def __init__(
        self, places: Sequence[Path] = STAGE_DIRECTORIES, covered: Sequence[Path] = FALLBACK_MOUNT_POINTS
    ) -> None:
        linux.unshare_mounts()
        # A name for each warden: whoever removed a directory that another one uses would take its mounts away.
        names = [place / f"{_DIRECTORY_PREFIX}{os.getpid()}" for place in places]
        for place in places:
            _remove_stale(place)
        self._place = _mount_first_usable(names, covered)
        self._owners: dict[tuple[int, int], int] = {}

    def close(self) -> None:
        """Leave nothing behind; what this cannot remove, the next warden does."""
        with contextlib.suppress(OSError):
            linux.unmount(str(self._place))
            if self._place.name.startswith(_DIRECTORY_PREFIX):
                self._place.rmdir()

    def open(self, name: str) -> MountStage:
        """A stage with nothing on it yet."""
        return MountStage(self._place / name, self._owners)


def _remove_stale(place: Path) -> None:
    """Remove the directories of wardens that are gone."""
    for left in place.glob(f"{_DIRECTORY_PREFIX}*"):
        if not Path(f"/proc/{left.name.removeprefix(_DIRECTORY_PREFIX)}").exists():
            with contextlib.suppress(OSError):  # not ours, or not empty: then it is none of ours
                left.rmdir()


def _mount_first_usable(places: Sequence[Path], covered: Sequence[Path]) -> Path:
    """Somewhere that user nobody can reach, with an empty file system of ours mounted there."""
    failure = OSError(errno.ENOENT, "no place was found")
    for place in (*places, *covered):
        try:
            _check_directory(place, ours=place in places)
            linux.mount_tmpfs(str(place), "size=1m,mode=711")
        except OSError as error:
            failure = error
        else:
            return place
    raise failure


def _check_directory(place: Path, *, ours: bool) -> None:
    if ours:
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o711)
        found = place.lstat()
        # Anybody may have put something of that name below /tmp.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(errno.EEXIST, "is not a directory of ours", str(place))
    elif any(place.iterdir()):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(place))
    if not all(outer.stat().st_mode & stat.S_IXOTH for outer in place.parents):
        raise OSError(errno.EACCES, "nobody may not pass through", str(place.parent))


class MountStage:
    """The trees of one cage, until it is built."""

    def __init__(self, directory: Path, owners: dict[tuple[int, int], int]) -> None:
        directory.mkdir(mode=0o711)
        self._directory = directory
        self._owners = owners  # user namespaces that map an owner to nobody; as many as owners of trees, which is few
        self._shown: dict[tuple[str, bool], Path] = {}
        self._directories: dict[Path, bool] = {}  # which points are; to ask the file system there could take for ever

    def mount_source(self, bind: BindMount, pin: PinFunction) -> str:
        """Show a tree, and say where bubblewrap finds it.

        Args:
            bind: What is to be shown.
            pin: Holds on to it (`pinning.py`): between the daemon's look and ours, a link may have taken its name.

        Raises:
            IdmapUnsupported: it is to be written to, and its file system cannot show it under another owner.
            OSError: it is not there, or cannot be mounted.
        """
        as_nobodys = bind.writable or bind.plugin_owned
        key = (bind.source, as_nobodys)
        if key not in self._shown:
            place = pin(bind.source)
            try:
                self._shown[key] = self._mount_tree(place, as_nobodys=as_nobodys)
            except IdmapUnsupported as error:
                error.filename = bind.source
                raise
            finally:
                os.close(place.descriptor)
        return str(self._shown[key])

    def _mount_tree(self, place: PinnedPath, *, as_nobodys: bool) -> Path:
        point = self._directory / str(len(self._shown))
        if place.directory:
            point.mkdir()
        else:
            point.touch()
        try:
            if as_nobodys and place.owner != (NOBODY, NOBODY):
                self._mount_idmapped(place, point)
            else:
                linux.mount_bind(place.descriptor, str(point))
        except BaseException:
            point.rmdir() if place.directory else point.unlink()
            raise
        self._directories[point] = place.directory
        return point

    def close(self) -> None:
        """Take everything away again."""
        for point in self._shown.values():
            # What cannot be unmounted cannot be removed either: never is a file of the host touched here.
            with contextlib.suppress(OSError):
                linux.unmount(str(point))
            with contextlib.suppress(OSError):
                point.rmdir() if self._directories[point] else point.unlink()
        self._shown.clear()
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def _mount_idmapped(self, place: PinnedPath, point: Path) -> None:
        if place.owner not in self._owners:
            uid, gid = place.owner
            self._owners[place.owner] = linux.create_mapped_userns(f"{uid} {NOBODY} 1\n", f"{gid} {NOBODY} 1\n")
        try:
            linux.mount_bind(place.descriptor, str(point), self._owners[place.owner])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP):
                raise IdmapUnsupported(error.errno, os.strerror(error.errno)) from error
            raise
