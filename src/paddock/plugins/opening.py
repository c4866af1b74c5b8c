"""Opening the plugin store for one command: the database, the packages beside it, and the trees."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.clock import Clock, SystemClock, SystemRandom
from paddock.plugins.plugin_store import PluginStore
from paddock.store.blobs import blobs_of
from paddock.store.database import open_direct


@contextmanager
def open_plugin_store(
    directories: Directories, settings: Settings, *, clock: Clock | None = None, wait: float = 10.0
) -> Generator[PluginStore, None, None]:
    """The plugin store where the settings say it is, for as long as the block runs.

    Raises:
        StoreUnavailable: a daemon held it for longer than `wait` seconds, or it cannot be opened.
    """
    clock = clock or SystemClock()
    with open_direct(settings.store.url or directories.database_file, wait=wait) as database:
        yield PluginStore(
            database=database,
            blobs=blobs_of(database, directories.data / "packages", clock),
            data=directories.data,
            local_file=directories.local_file,
            clock=clock,
            random=SystemRandom(),
            retention_days=settings.versions.retention_days,
            environments_allowed=settings.plugins.environments,
        )
