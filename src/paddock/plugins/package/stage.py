"""Stages a package from any source as a plain tree in a directory of ours, or leaves nothing behind.

Each staging directory holds a `lock` file that its owner keeps locked. If the owner is killed the kernel releases it,
and the next `sweep_staging` removes the directory.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from paddock.cage.bounded_process import ProcessLimits
from paddock.core.action import Action
from paddock.core.errors import HostError, OperatorError
from paddock.plugins.package.extract import ProgressCallback, extract_entries
from paddock.plugins.package.from_directory import directory_entries
from paddock.plugins.package.from_git import GIT_LIMITS, GitRepository
from paddock.plugins.package.from_zip import open_zip, zip_entries
from paddock.plugins.package.rules import DEFAULT_LIMITS, PackageLimits, PackageValidator
from paddock.plugins.package.source import PackageSource, SourceKind, SourceRecord
from paddock.plugins.package.tree import PackageTree


class StagedPackage(Struct, frozen=True):
    """A checked package on disk. `root` may be renamed away; the rest is removed when the block ends."""

    root: Path
    tree: PackageTree
    source: SourceRecord


@contextmanager
def stage_package(
    source: PackageSource,
    staging_root: Path,
    progress: ProgressCallback | None = None,
    *,
    limits: PackageLimits = DEFAULT_LIMITS,
    git_limits: ProcessLimits = GIT_LIMITS,
    recorded_as: PackageSource | None = None,
) -> Generator[StagedPackage, None, None]:
    """Stage the package of `source` as a tree below `staging_root`, for as long as the block runs.

    Blocks; call it from a worker thread. A `progress` that raises stops it. `recorded_as` is the source to show and
    record if the package is read from a temporary place.

    Raises:
        Invalid: the package is unsafe, with every reason.
        OperatorError: the source cannot be fetched.
        HostError: the disk refuses.
    """
    with open_staging_directory(staging_root) as directory:
        root = directory / "tree"
        validator = PackageValidator(limits)
        label = (recorded_as or source).describe()
        commit: str | None = None
        match source.kind:
            case SourceKind.DIRECTORY:
                tree = extract_entries(
                    directory_entries(Path(source.location), validator), root, validator, label, progress
                )
            case SourceKind.ARCHIVE:
                with open_zip(Path(source.location)) as file:
                    tree = extract_entries(zip_entries(file, label, limits), root, validator, label, progress)
            case SourceKind.GIT:
                workspace = directory / "git"
                workspace.mkdir()
                repository = GitRepository(source, workspace, git_limits, progress)
                commit = repository.fetch()
                tree = extract_entries(repository.entries(commit, validator), root, validator, label, progress)
            case SourceKind.CONFIGURATION:
                raise OperatorError(
                    f"{label} is the settings file of another program, not a package",
                    code="source.configuration",
                    hint="import it again",
                    action=Action.of("plugin.import", file=source.location),
                )
            case SourceKind.UPLOAD:
                raise OperatorError(
                    f"{label} was uploaded by a browser, and is not stored",
                    code="source.uploaded",
                    hint="upload the new version, or name another source",
                )
            case SourceKind.PYPI | SourceKind.NPM | SourceKind.SERVER_FILE:
                raise HostError(f"{label} is no package of ours yet", code="source.registry")
        yield StagedPackage(root, tree, SourceRecord(recorded_as or source, commit))


def sweep_staging(staging_root: Path) -> tuple[str, ...]:
    """Remove directories of killed owners, and return their names. Directories in use are not touched."""
    abandoned: list[tuple[Path, int]] = []
    if not staging_root.is_dir():
        return ()
    with _staging_lock(staging_root):
        for directory in sorted(staging_root.iterdir()):
            lock_fd = _lock_if_abandoned(directory)
            if lock_fd is not None:
                abandoned.append((directory, lock_fd))
    for directory, lock_fd in abandoned:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock_fd)
    return tuple(directory.name for directory, _ in abandoned)


@contextmanager
def open_staging_directory(staging_root: Path) -> Generator[Path, None, None]:
    """Create a directory of ours, locked as in use until the block ends, and then removed."""
    directory = staging_root / secrets.token_hex(8)
    try:
        staging_root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _staging_lock(staging_root):
            directory.mkdir(mode=0o700)
            lock_fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
    except OSError as error:
        raise HostError(f"cannot stage in {staging_root}: {error.strerror}", code="staging.disk") from error
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock_fd)


@contextmanager
def _staging_lock(staging_root: Path) -> Generator[None, None, None]:
    """Keep others from judging a directory that was created but is not locked yet."""
    fd = os.open(staging_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _lock_if_abandoned(directory: Path) -> int | None:
    """Return the lock of a directory whose owner is gone, or None. Without a lock file its owner died before creating
    it."""
    if directory.is_symlink() or not directory.is_dir():
        return None
    try:
        fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None  # its owner has just removed it
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
