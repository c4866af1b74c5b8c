"""Where a plugin's tables lie, and what they are called: inside by the plugin, outside by people."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.core.errors import HostError

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*")
_LONGEST = 128


def file_of(directory: Path, tenant: str, plugin: str) -> Path:
    """The file of one plugin for one tenant.

    Raises:
        HostError: a name that could lead elsewhere.
    """
    return directory / safe_name(tenant) / f"{safe_name(plugin)}.sqlite"


def files_of(path: Path) -> list[Path]:
    """The file and what SQLite keeps beside it."""
    return [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))]


def full_name(plugin: str, table: str) -> str:
    """A table as operators and the audit trail know it; the plugin itself never sees this name.

    >>> full_name("oh-my-pi", "presets")
    'plugin_oh_my_pi_presets'
    """
    return f"plugin_{plugin.replace('-', '_')}_{table}"


def safe_name(name: str) -> str:
    """A tenant or plugin as part of a path.

    Raises:
        HostError: a name that could lead elsewhere.
    """
    if len(name) > _LONGEST or not _SAFE.fullmatch(name):
        raise HostError(f"{name[:40]!r} cannot name a storage file", code="storage.name")
    return name
