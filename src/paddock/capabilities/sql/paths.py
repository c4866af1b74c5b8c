"""Paths of the plugins' database files, and table names as people see them."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.core.errors import HostError

_SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*")
_MAX_NAME_CHARS = 128


def database_file(directory: Path, tenant: str, plugin: str) -> Path:
    """Return the file of one plugin for one tenant.

    Raises:
        HostError: a name that could escape the directory.
    """
    return directory / safe_path_name(tenant) / f"{safe_path_name(plugin)}.sqlite"


def database_files(path: Path) -> list[Path]:
    """Return the file and SQLite's companions of it."""
    return [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))]


def full_table_name(plugin: str, table: str) -> str:
    """Return a table's name for operators and the audit trail; the plugin itself never sees it.

    >>> full_table_name("oh-my-pi", "presets")
    'plugin_oh_my_pi_presets'
    """
    return f"plugin_{plugin.replace('-', '_')}_{table}"


def safe_path_name(name: str) -> str:
    """Return a tenant's or plugin's name for use in a path.

    Raises:
        HostError: a name that could escape the directory.
    """
    if len(name) > _MAX_NAME_CHARS or not _SAFE_NAME.fullmatch(name):
        raise HostError(f"{name[:40]!r} cannot name a storage file", code="storage.name")
    return name
