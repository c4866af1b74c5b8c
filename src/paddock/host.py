"""The composition root: the one place that knows every concrete part and puts them together."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.config.directories import Directories, create_directories, find_directories
from paddock.config.load import load_settings
from paddock.config.origins import LoadedSettings
from paddock.core.clock import Clock, SystemClock, SystemRandom
from paddock.plugins.plugin_store import PluginStore
from paddock.store.blobs import blobs_of
from paddock.store.database import open_direct

DATABASE_FILE = "paddock.db"


@dataclass(frozen=True, slots=True)
class CommandHost:
    """What a one-shot command works with."""

    directories: Directories
    loaded: LoadedSettings
    plugins: PluginStore


@contextmanager
def open_for_command(
    environ: Mapping[str, str], home: Path, *, cwd: Path | None = None, clock: Clock | None = None
) -> Generator[CommandHost, None, None]:
    """The host for the length of one command, without a daemon.

    Raises:
        Invalid: the settings have mistakes; carries all of them.
        StoreUnavailable: the store is held by a daemon, or cannot be opened.
    """
    directories = find_directories(environ, home)
    create_directories(directories)
    loaded = load_settings(directories, environ, cwd=cwd)
    where = loaded.settings.store.url or directories.data / DATABASE_FILE
    clock = clock or SystemClock()
    with open_direct(where) as database:
        store = PluginStore(
            database=database,
            blobs=blobs_of(database, directories.data / "packages", clock),
            data=directories.data,
            local_file=directories.local_file,
            clock=clock,
            random=SystemRandom(),
            retention_days=loaded.settings.versions.retention_days,
        )
        yield CommandHost(directories, loaded, store)
