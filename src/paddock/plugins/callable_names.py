"""From the full name of a callable to its plugin and its own name, whether the plugin is enabled or not."""

from __future__ import annotations

from typing import Any

from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.plugins.definitions.tools import tools_of
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import find_by_any_name

_MOST_NAMED = 12


def find_callable(store: PluginStore, name: str) -> tuple[str, dict[str, Any]]:
    """The plugin that a full name begins with, and what is on record of the callable that the rest names.

    A plugin's own name will do where it is one callable.

    Raises:
        NotFound: no installed plugin has it.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):  # names have dots in them: the longest that is one
        asked, rest = ".".join(parts[:length]), ".".join(parts[length:])
        found = store.database.read(lambda tx, asked=asked: find_by_any_name(tx, asked))
        if found is None:
            continue
        tools = list(tools_of(store, found.name).values())
        chosen = [one for one in tools if one["name"] == rest] or (tools if not rest and len(tools) == 1 else [])
        if chosen:
            return found.name, chosen[0]
        offered = ", ".join(printable(one["name"], 80) for one in tools[:_MOST_NAMED])
        raise NotFound(
            f"{found.name} has no {printable(rest)!r}" if rest else f"say which callable of {found.name} you mean",
            code="callable.not_found",
            hint=f"it offers: {offered}" if offered else f"see what it offers: paddock plugin tools {found.name}",
            details={"plugin": found.name},
        )
    raise NotFound(
        f"no installed plugin has {printable(name)!r}", code="callable.not_found", hint="see 'paddock plugin list'"
    )
