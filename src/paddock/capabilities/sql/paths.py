"""Where a plugin's tables lie, and what they are called: inside by the plugin, outside by people."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.core.errors import HostError

_SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*")
_MAX_NAME_CHARS = 128


def database_file(directory: Path, tenant: str, plugin: str) -> Path:
    """The file of one plugin for one tenant.

    Raises:
        HostError: a name that could lead elsewhere.
    """
    return directory / safe_path_name(tenant) / f"{safe_path_name(plugin)}.sqlite"


def database_files(path: Path) -> list[Path]:
    """The file and what SQLite keeps beside it."""
    return [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))]


def full_table_name(plugin: str, table: str) -> str:
    """A table as operators and the audit trail know it; the plugin itself never sees this name.

    >>> full_name("oh-my-pi", "presets")
    'plugin_oh_my_pi_presets'
    """
    return f"plugin_{plugin.replace('-', '_')}_{table}"


def safe_path_name(name: str) -> str:
    """A tenant or plugin as part of a path.

    Raises:
        HostError: a name that could lead elsewhere.
    """
    if len(name) > _MAX_NAME_CHARS or not _SAFE_NAME.fullmatch(name):
        raise HostError(f"{name[:40]!r} cannot name a storage file", code="storage.name")
    return name
