"""Other names for installed plugins."""

from __future__ import annotations

from paddock.core.errors import Conflict, NotFound, OperatorError
from paddock.manifest.names import plugin_name_fault
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import require_plugin
from paddock.plugins.rows import delete_alias, find_plugin, save_alias
from paddock.store.database import Transaction


def add(store: PluginStore, alias: str, name: str) -> str:
    """Let `alias` stand for a plugin, and give the plugin's own name.

    Raises:
        NotFound: the plugin is not installed.
        Conflict: a plugin has that name itself.
        OperatorError: the alias is no name.
    """
    fault = plugin_name_fault(alias)
    if fault:
        raise OperatorError(f"the alias {fault[0]}", code="alias.name", hint=fault[1])

    def unit(tx: Transaction) -> str:
        if find_plugin(tx, alias):
            raise Conflict(f"{alias!r} is itself an installed plugin", code="alias.taken", hint="choose another alias")
        plugin = require_plugin(tx, name)
        save_alias(tx, alias, plugin.name)
        return plugin.name

    return store.database.write(unit)


def remove(store: PluginStore, alias: str) -> None:
    """Forget an alias.

    Raises:
        NotFound: there is no such alias.
    """
    if not store.database.write(lambda tx: delete_alias(tx, alias)):
        raise NotFound(f"{alias!r} is not an alias", code="alias.not_found", hint="see 'paddock plugin info NAME'")
