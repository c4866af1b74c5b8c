"""References in a plugin's configuration that lead nowhere: variables and secrets that are not set. None is opened."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.config.local import PluginEntry
from paddock.config.variables import SECRET, fill
from paddock.core.errors import Problem
from paddock.plugins.plugin_store import PluginStore


def unset_references(store: PluginStore, entry: PluginEntry, environ: Mapping[str, str]) -> dict[str, list[Problem]]:
    """By field: what it refers to and is not set, for whoever has these variables. A daemon may have others."""
    from paddock.secrets.rows import secrets

    set_here = store.database.read(lambda tx: secrets(tx, store.tenant, ""))
    known = {**environ, **{f"{SECRET}{one.name}": "" for one in set_here}}
    found: dict[str, list[Problem]] = {}
    for field, value in entry.written.items():
        problems: list[Problem] = []
        fill(value, known, f"{entry.path}.{field}", problems)
        if problems:
            found[field] = problems
    return found
