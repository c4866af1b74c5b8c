"""A person accepts what a server says of itself now: exactly the definition they were shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from paddock.core.errors import Conflict, NotFound, PluginError
from paddock.core.events_definitions import PluginDefinitionAccepted
from paddock.plugins.definitions.examining import shape_of
from paddock.plugins.definitions.flagging.hints import Hint
from paddock.plugins.definitions.flagging.neighbours import Names
from paddock.plugins.definitions.flagging.reading import read_words
from paddock.plugins.definitions.flagging.surveying import beside_others, listed_words, names_of_all
from paddock.plugins.definitions.readable import difference
from paddock.plugins.definitions.rows import (
    DefinitionRow,
    Texts,
    definitions_of,
    find_definition,
    lock_plugin,
    take_waiting,
    texts_of,
)
from paddock.plugins.definitions.standing import Standing
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import require_plugin
from paddock.plugins.rows import waiting_counts
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Shown:
    """A definition with how it differs from what was accepted, line by line; nothing where nothing waits."""

    row: DefinitionRow
    texts: Texts
    everybody: tuple[Names, ...] = ()  # whom its words may speak of

    @property
    def difference(self) -> tuple[str, ...]:
        """Compared when it is asked for, and no sooner: much takes long, and the store must not wait for it."""
        return tuple(difference(self.texts.accepted, self.texts.waiting)) if self.row.waiting_hash is not None else ()

    @property
    def hints(self) -> tuple[Hint, ...]:
        """What is odd about what the server says now."""
        text = self.texts.waiting or self.texts.accepted
        own = read_words(self.row.plugin, "", listed_words([(self.row.kind, self.row.name, text)]))
        return own.hints + beside_others(own, self.everybody)

    def to_value(self) -> dict[str, Any]:
        hints = [hint.to_value() for hint in self.hints]
        return self.row.to_value() | {"difference": list(self.difference), "hints": hints}


def shown_definitions(store: PluginStore, plugin: str) -> list[Shown]:
    """Everything a plugin's server says of itself.

    Raises:
        NotFound: it is not installed.
    """

    def unit(tx: Transaction) -> list[Shown]:
        name = require_plugin(tx, plugin).name
        everybody = names_of_all(tx, store.tenant)
        return [
            Shown(row, texts_of(tx, store.tenant, name, row.kind, row.name), everybody)
            for row in definitions_of(tx, store.tenant, name)
        ]

    return store.database.read(unit)


def all_waiting(store: PluginStore) -> list[DefinitionRow]:
    """Whatever waits for a person, of all plugins."""

    def unit(tx: Transaction) -> list[DefinitionRow]:
        found = [
            row
            for plugin in sorted(waiting_counts(tx, store.tenant))
            for row in definitions_of(tx, store.tenant, plugin)
        ]
        return [row for row in found if row.standing is Standing.QUARANTINED]

    return store.database.read(unit)


def accept(store: PluginStore, plugin: str, kind: str, name: str, shown_hash: str, by: str) -> DefinitionRow:
    """Use a definition from now on as the server gives it.

    Args:
        store: The plugin store.
        plugin: The plugin's name or an alias.
        kind: What it is, as in `tool`.
        name: The definition's name.
        shown_hash: Of the definition that the person saw.
        by: Who accepts it.

    Raises:
        NotFound: no such plugin, or no such definition.
        Conflict: the server has changed it since it was shown.
        PluginError: it cannot be used, whoever accepts it.
    """

    def unit(tx: Transaction) -> DefinitionRow:
        found = require_plugin(tx, plugin).name
        lock_plugin(tx, found)
        row = find_definition(tx, store.tenant, found, kind, name)
        if row is None:
            raise NotFound(
                f"{found} lists no {kind} {name!r}",
                code="definition.not_found",
                hint=f"see what it lists: paddock plugin info {found}",
            )
        if row.standing is Standing.BAD:
            raise PluginError(
                f"{found} {name} cannot be used: {row.reason}",
                code="tool.bad",
                hint=row.repair,
                details={"plugin": found},
            )
        if row.standing is Standing.ACCEPTED and row.hash == shown_hash:
            return row
        if row.standing is not Standing.QUARANTINED or row.waiting_hash != shown_hash:
            raise Conflict(
                f"{found} {name} is not what you were shown any more",
                code="definition.changed_meanwhile",
                hint=f"look again: paddock plugin accept {found}",
                details={"plugin": found, "hash": row.waiting_hash or row.hash},
            )
        new = texts_of(tx, store.tenant, found, kind, name).waiting
        accepted = PluginDefinitionAccepted(
            name=found, kind=kind, definition=name, old_hash=row.hash, new_hash=shown_hash, accepted_by=by
        )
        store.publish(tx, accepted)
        at = store.now()
        take_waiting(tx, store.tenant, row, shape=shape_of(kind, json.loads(new)), by=by, at=at)
        return find_definition(tx, store.tenant, found, kind, name) or row

    return store.database.write(unit)
