"""What the commands about rules look up in this home, where there is one: they need none to read rules."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.config.directories import Directories
    from paddock.config.settings import Settings
    from paddock.plugins.plugin_store import PluginStore


@contextmanager
def home_if_any(directories: Directories, settings: Settings) -> Generator[PluginStore | None, None, None]:
    """The plugins and the database of this home; None where nothing was ever kept in it. Nothing is made for this.

    Raises:
        StoreUnavailable: the store cannot be opened.
    """
    from paddock.plugins.opening import open_plugin_store
    from paddock.store.database import embedded_path

    path = embedded_path(settings.store.url or directories.database_file)
    if path is not None and not path.is_file():
        yield None
        return
    with open_plugin_store(directories, settings) as store:
        yield store
