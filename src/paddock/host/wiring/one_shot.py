"""A host for one command that only reads or changes what is installed; no plugin runs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.config.directories import Directories, create_directories, find_directories
from paddock.config.load import load_settings
from paddock.config.resolve import LoadedSettings
from paddock.core.clock import Clock
from paddock.plugins.store.store import PluginStore, open_plugin_store


@dataclass(frozen=True, slots=True)
class OneShotHost:
    """The parts that a one-shot command works with."""

    directories: Directories
    loaded: LoadedSettings
    plugins: PluginStore


@contextmanager
def open_one_shot(
    environ: Mapping[str, str], home: Path, *, cwd: Path | None = None, clock: Clock | None = None
) -> Generator[OneShotHost, None, None]:
    """Open the plugin store for one command, without a daemon.

    Raises:
        Invalid: the settings have mistakes; carries all of them.
        StoreUnavailable: the store is held by a daemon, or cannot be opened.
    """
    directories = find_directories(environ, home)
    create_directories(directories)
    loaded = load_settings(directories, environ, cwd=cwd)
    with open_plugin_store(directories, loaded.settings, clock=clock) as plugins:
        yield OneShotHost(directories, loaded, plugins)
