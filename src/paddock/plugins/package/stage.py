"""Staging: a package from anywhere becomes a plain tree in a directory of ours, or leaves nothing behind.

Each staging directory holds a `lock` file that its owner keeps locked. When the owner is killed the kernel lets go,
and the next `sweep_staging` removes what is left.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import HostError, OperatorError
from paddock.plugins.package.extract import ProgressCallback, extract_entries
from paddock.plugins.package.from_directory import directory_entries
from paddock.plugins.package.from_git import GitLimits, GitRepository
from paddock.plugins.package.from_zip import open_zip, zip_entries
from paddock.plugins.package.rules import DEFAULT_LIMITS, PackageLimits, PackageValidator
from paddock.plugins.package.source import PackageSource, SourceKind, SourceRecord
from paddock.plugins.package.tree import PackageTree


@dataclass(frozen=True, slots=True)
class StagedPackage:
    """A checked package on disk. `root` may be renamed away; what stays is removed when the block ends."""

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
    git_limits: GitLimits | None = None,
    recorded_as: PackageSource | None = None,
) -> Generator[StagedPackage, None, None]:
    """The package of `source` as a tree below `staging_root`, for as long as the block runs.

    Blocks; call it from a worker thread. A `progress` that raises stops it. `recorded_as` is what people are told and
    what is kept as its source, where it is read from a place that nobody knows.

    Raises:
        Invalid: the package is unsafe, with every reason.
        OperatorError: the source cannot be fetched.
        HostError: the disk refuses.
    """
    with open_staging_directory(staging_root) as directory:
        root = directory / "tree"
        listing = PackageValidator(limits)
        what = (recorded_as or source).describe()
        commit: str | None = None
        match source.kind:
            case SourceKind.DIRECTORY:
                tree = extract_entries(directory_entries(Path(source.location), listing), root, listing, what, progress)
            case SourceKind.ARCHIVE:
                with open_zip(Path(source.location)) as file:
                    tree = extract_entries(zip_entries(file, what, limits), root, listing, what, progress)
            case SourceKind.GIT:
                workspace = directory / "git"
                workspace.mkdir()
                repository = GitRepository(source, workspace, git_limits or GitLimits(), progress)
                commit = repository.fetch()
                tree = extract_entries(repository.entries(commit, listing), root, listing, what, progress)
            case SourceKind.CONFIGURATION:
                raise OperatorError(
                    f"{what} is another program's settings, not a package",
                    code="source.configuration",
                    hint=f"import it again: paddock import {source.location}",
                )
            case SourceKind.UPLOAD:
                raise OperatorError(
                    f"{what} was sent by a browser, and is not kept",
                    code="source.uploaded",
                    hint="upload the new version, or name another source",
                )
            case SourceKind.PYPI | SourceKind.NPM:
                raise HostError(f"{what} is no package of ours yet", code="source.registry")
        yield StagedPackage(root, tree, SourceRecord(recorded_as or source, commit))


def sweep_staging(staging_root: Path) -> tuple[str, ...]:
    """Remove what killed owners left, and give the names removed. Directories in use are not touched."""
    dead: list[tuple[Path, int]] = []
    if not staging_root.is_dir():
        return ()
    with _staging_lock(staging_root):
        for directory in sorted(staging_root.iterdir()):
            descriptor = _lock_if_abandoned(directory)
            if descriptor is not None:
                dead.append((directory, descriptor))
    for directory, descriptor in dead:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(descriptor)
    return tuple(directory.name for directory, _ in dead)


@contextmanager
def open_staging_directory(staging_root: Path) -> Generator[Path, None, None]:
    """A new directory of ours, marked as in use until the block ends, and then removed."""
    directory = staging_root / secrets.token_hex(8)
    try:
        staging_root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _staging_lock(staging_root):
            directory.mkdir(mode=0o700)
            lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise HostError(f"cannot stage in {staging_root}: {error.strerror}", code="staging.disk") from error
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


@contextmanager
def _staging_lock(staging_root: Path) -> Generator[None, None, None]:
    """Keep others from judging a directory that was made but is not locked yet."""
    descriptor = os.open(staging_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_if_abandoned(directory: Path) -> int | None:
    """The lock of a directory whose owner is gone, or None. Without a lock file its owner died before making one."""
    if directory.is_symlink() or not directory.is_dir():
        return None
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
