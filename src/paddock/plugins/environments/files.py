"""The files of an environment: checked, made read-only, and hashed. There are thousands: each is looked at briefly."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from paddock.core.errors import HostError, PluginError
from paddock.core.printable import printable
from paddock.plugins.package.tree import PackageTree, TreeFile

_MAX_BYTES_AT_ONCE = 8 * 1024 * 1024


def check_package_files(root: Path, reserved: Collection[str] = ()) -> None:
    """Reject links and special files, and anything at a reserved path.

    Raises:
        PluginError: there is such a file.
    """
    for path in (Path(one) for one in reserved):
        for ancestor in (path, *path.parents):
            if os.path.lexists(root / ancestor) and (ancestor == path or not (root / ancestor).is_dir()):
                raise _forbidden_file_error(str(ancestor), "which belongs to the environment itself")
    for relative, entry in _walk(root):
        # A hard link counts too: a change to one name changes the other.
        is_own_file = entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink == 1
        if not (is_own_file or entry.is_dir(follow_symlinks=False)):
            raise _forbidden_file_error(relative, "which is a link or no file at all")


def _forbidden_file_error(path: str, reason: str) -> PluginError:
    return PluginError(
        f"a package brings {printable(path, 200)}, {reason}",
        code="environment.strange_file",
        hint="nothing was installed and nothing of it ran; do not trust it before its author has explained that",
    )


def make_files_read_only(root: Path) -> None:
    """Make files readable by everyone and writable by no one. Directories follow after the move: a read-only one cannot
    be moved."""
    root.chmod(0o755)
    for _, entry in _walk(root):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o755)  # noqa: PTH101, S103 - a Path for each takes longer than the call
        elif entry.is_file(follow_symlinks=False):
            executable = entry.stat(follow_symlinks=False).st_mode & 0o111
            os.chmod(entry.path, 0o555 if executable else 0o444)  # noqa: PTH101


def scan_environment(root: Path) -> PackageTree:
    """Hash every file of an environment. A link counts as its target path, not as what is there."""
    files: list[TreeFile] = []
    for relative, entry in _walk(root):
        if entry.is_symlink():
            target_hash = hashlib.sha256(b"link:" + os.fsencode(Path(entry.path).readlink())).hexdigest()
            files.append(TreeFile(relative, False, 0, target_hash))
        elif entry.is_file(follow_symlinks=False):
            file_stat = entry.stat(follow_symlinks=False)
            executable = bool(file_stat.st_mode & 0o111)
            files.append(TreeFile(relative, executable, file_stat.st_size, _hash_file(entry.path)))
        elif not entry.is_dir(follow_symlinks=False):
            raise HostError(f"{relative} is neither a file nor a link", code="environment.damaged")
    return PackageTree(tuple(files))


def _hash_file(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        digest = hashlib.sha256()
        while chunk := os.read(handle, _MAX_BYTES_AT_ONCE):
            digest.update(chunk)
        return digest.hexdigest()
    finally:
        os.close(handle)


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all entries below a directory, with their paths below it. Links are not followed."""
    pending = [(os.fspath(root), "")]
    while pending:
        directory, prefix = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                relative = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{relative}/"))
                yield relative, entry
