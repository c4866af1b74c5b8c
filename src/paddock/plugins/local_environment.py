"""This node's environment for a version of a plugin: found, or built anew from the lock that stands in the rows."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.plugins.entries import Report
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.rows import VersionRow

if TYPE_CHECKING:
    from paddock.plugins.environments.building import Built
    from paddock.plugins.environments.clients import Client
    from paddock.plugins.environments.lock import Lock
    from paddock.plugins.environments.shelf import Environment


def environment_of(store: PluginStore, row: VersionRow) -> Environment | None:
    """The environment that a version runs in; None where it needs none. Nothing is ever built here.

    Raises:
        Unavailable: it needs one that is not on this machine (`environment.missing`).
    """
    from paddock.plugins.environments.rows import wanted_by

    wanted = store.database.read(lambda tx: wanted_by(tx, row.plugin, row.version))
    return store.environments.require(wanted, row.plugin) if wanted is not None else None


@contextmanager
def client_for(store: PluginStore, progress: Report | None) -> Generator[Client, None, None]:
    """A package client with a staging directory of its own."""
    from paddock.plugins.environments.clients import Client
    from paddock.plugins.staging import staging_directory

    with staging_directory(store.staging) as directory:
        workspace = Path(directory) / "client"
        workspace.mkdir()
        yield Client(workspace, os.environ, progress)


@contextmanager
def built_for(store: PluginStore, lock: Lock | None, progress: Report | None) -> Generator[Built | None, None, None]:
    """What a lock needs, built in staging; None where there is no lock, or all of it is here already.

    It takes as long as fetching packages does, so no lock of the store is held meanwhile.
    """
    from paddock.plugins.environments.building import built

    if lock is None or store.environments.find_for(lock) is not None:
        yield None
        return
    with client_for(store, progress) as client, built(lock, client, store.environments.place_of(lock)) as environment:
        yield environment


def mend_environment(store: PluginStore, row: VersionRow, progress: Report | None = None) -> bool:
    """Build a version's environment anew where it is missing or changed. Whether it was.

    For a person who repairs, and for a node to which another one brought a plugin.

    Raises:
        PaddockError: it cannot be built; says why.
    """
    from paddock.plugins.environments.building import built
    from paddock.plugins.environments.rows import lock_of

    lock = store.database.read(lambda tx: lock_of(tx, row.plugin, row.version))
    if lock is None or store.environments.intact_for(lock):
        return False
    with client_for(store, progress) as client:
        place = store.environments.place_of(lock)
        with built(lock, client, place) as environment, store.changing():
            store.environments.place(environment, replace=True)
    return True
