"""This node's copies of packages and environments. Rows and blobs may be shared by several nodes; files on disk belong
to one node."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.core.action import Action
from paddock.core.errors import NotFound
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.store.rows import VersionRow, tree_of
from paddock.plugins.store.store import PluginStore, remove_path

if TYPE_CHECKING:
    from paddock.plugins.environments.build import BuiltEnvironment
    from paddock.plugins.environments.lock import Lock
    from paddock.plugins.environments.package_client import PackageClient
    from paddock.plugins.environments.store import Environment


def ensure_local_files(store: PluginStore, row: VersionRow) -> Path:
    """Return the directory of a version's files; fetches them from the shared store if another node installed it.

    Raises:
        NotFound: its package is no longer stored.
        HostError: its stored package is damaged.
    """
    root = store.version_root(row.plugin, row.version)
    if store.shared and not root.exists():
        with store.change_lock():
            if not root.exists():
                restore_files(store, row)
    return root


def restore_files(store: PluginStore, row: VersionRow) -> None:
    """Restore a version's files as they were consented to. Call it while holding `store.change_lock()`.

    Raises:
        NotFound: its package is no longer stored.
        HostError: its stored package is damaged.
    """
    # Imported lazily: most commands use files that are there already.
    from paddock.plugins.package.blob import unpack_blob
    from paddock.plugins.package.stage import open_staging_directory

    tree = store.database.read(lambda tx: tree_of(tx, row.plugin, row.version))
    root = store.version_root(row.plugin, row.version)
    if not store.blobs.has(row.blob):
        raise NotFound(
            f"the package of {row.plugin} {row.version} is no longer stored",
            code="package.gone",
            hint="remove it, then install it again",
            action=Action.of("plugin.remove", plugin=row.plugin),
        )
    with open_staging_directory(store.staging) as directory:
        restored = directory / "tree"
        with store.blobs.open(row.blob) as blob:
            unpack_blob(blob, restored, tree)
        remove_path(root)
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        restored.rename(root)
    store.save_fingerprint(row.plugin, row.version)


def find_environment(store: PluginStore, row: VersionRow) -> Environment | None:
    """Return the environment that a version runs in; None if it needs none. Never builds one.

    Raises:
        Unavailable: it needs one that is not on this machine (`environment.missing`).
    """
    from paddock.plugins.environments.store import required_environment

    required = store.database.read(lambda tx: required_environment(tx, row.plugin, row.version))
    return store.environments.require(required, row.plugin) if required is not None else None


@contextmanager
def open_package_client(store: PluginStore, progress: ProgressCallback | None) -> Generator[PackageClient, None, None]:
    """Open a package client with a staging directory of its own."""
    from paddock.plugins.environments.package_client import PackageClient
    from paddock.plugins.package.stage import open_staging_directory

    with open_staging_directory(store.staging) as directory:
        workspace = Path(directory) / "client"
        workspace.mkdir()
        yield PackageClient(workspace, store.cache, os.environ, progress)


@contextmanager
def build_missing_environment(
    store: PluginStore, lock: Lock | None, progress: ProgressCallback | None, built: BuiltEnvironment | None = None
) -> Generator[BuiltEnvironment | None, None, None]:
    """Build the environment of a lock in staging; None if there is no lock, or the environment exists already.

    `built` is the one that was built for a trial, and is in staging still. Building takes as long as fetching packages
    does, so the store's lock is not held meanwhile.
    """
    from paddock.plugins.environments.build import build_environment

    if lock is None or store.environments.find_by_lock(lock) is not None:
        yield None
        return
    if built is not None:
        yield built
        return
    with (
        open_package_client(store, progress) as client,
        build_environment(lock, client, store.environments.path_for(lock)) as environment,
    ):
        yield environment


def rebuild_environment(store: PluginStore, row: VersionRow, progress: ProgressCallback | None = None) -> bool:
    """Rebuild a version's environment if it is missing or changed; returns whether it was.

    For a person who repairs a plugin, and for a node to which another one brought a plugin.

    Raises:
        PaddockError: it cannot be built; says why.
    """
    from paddock.plugins.environments.build import build_environment
    from paddock.plugins.environments.store import find_lock

    lock = store.database.read(lambda tx: find_lock(tx, row.plugin, row.version))
    if lock is None or store.environments.is_intact(lock):
        return False
    with open_package_client(store, progress) as client:
        path = store.environments.path_for(lock)
        with build_environment(lock, client, path) as environment, store.change_lock():
            store.environments.put(environment, replace=True)
    return True
