"""The plugin store and the settings, opened for one command without a host; no plugin runs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from paddock.config.directories import Directories, create_directories, find_directories
from paddock.config.load import load_settings
from paddock.config.resolve import LoadedSettings
from paddock.core.clock import Clock
from paddock.plugins.store.store import PluginStore, open_plugin_store


class LocalStore(Struct, frozen=True):
    """The plugin store with the directories and settings it was opened with."""

    directories: Directories
    loaded: LoadedSettings
    plugins: PluginStore


@contextmanager
def open_local_store(
    environ: Mapping[str, str], home: Path, *, cwd: Path | None = None, clock: Clock | None = None
) -> Generator[LocalStore, None, None]:
    """Open the plugin store of this machine for one command, without a host.

    Raises:
        Invalid: the settings have mistakes; carries all of them.
        StoreUnavailable: the store is held by a daemon, or cannot be opened.
    """
    directories = find_directories(environ, home)
    create_directories(directories)
    loaded = load_settings(directories, environ, cwd=cwd)
    with open_plugin_store(directories, loaded.settings, clock=clock) as plugins:
        yield LocalStore(directories, loaded, plugins)
