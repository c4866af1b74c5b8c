"""A person accepts what a server says of itself now: exactly the definition they were shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from paddock.core.errors import Conflict, NotFound, PluginError
from paddock.core.events.tool_definitions import PluginDefinitionAccepted
from paddock.plugins.store.lookup import require_plugin
from paddock.plugins.store.rows import count_quarantined
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import DefinitionStatus, stable_hash
from paddock.plugins.tool_pinning.render import diff_lines
from paddock.plugins.tool_pinning.rows import (
    DefinitionRow,
    DefinitionTexts,
    accept_quarantined,
    definitions_of,
    find_definition,
    lock_plugin,
    texts_of,
)
from paddock.plugins.tool_pinning.scan.collisions import PluginNames
from paddock.plugins.tool_pinning.scan.definition_text import scan_definitions
from paddock.plugins.tool_pinning.scan.findings import ScanFinding
from paddock.plugins.tool_pinning.scan.scan import find_collisions, find_installed_names, listed_texts
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class DefinitionReview:
    """A definition with how it differs from what was accepted, line by line; nothing where nothing waits."""

    row: DefinitionRow
    texts: DefinitionTexts
    installed_names: tuple[PluginNames, ...] = ()  # whom its words may speak of

    @property
    def difference(self) -> tuple[str, ...]:
        """Compared when it is asked for, and no sooner: much takes long, and the store must not wait for it."""
        return tuple(diff_lines(self.texts.accepted, self.texts.waiting)) if self.row.waiting_hash is not None else ()

    @property
    def hints(self) -> tuple[ScanFinding, ...]:
        """What is odd about what the server says now."""
        text = self.texts.waiting or self.texts.accepted
        own = scan_definitions(self.row.plugin, "", listed_texts([(self.row.kind, self.row.name, text)]))
        return own.findings + find_collisions(own, self.installed_names)

    def to_value(self) -> dict[str, Any]:
        hints = [hint.to_value() for hint in self.hints]
        return self.row.to_value() | {"difference": list(self.difference), "hints": hints}


def review_definitions(store: PluginStore, plugin: str) -> list[DefinitionReview]:
    """Everything a plugin's server says of itself.

    Raises:
        NotFound: it is not installed.
    """

    def unit(tx: Transaction) -> list[DefinitionReview]:
        name = require_plugin(tx, plugin).name
        everybody = find_installed_names(tx, store.tenant)
        return [
            DefinitionReview(row, texts_of(tx, store.tenant, name, row.kind, row.name), everybody)
            for row in definitions_of(tx, store.tenant, name)
        ]

    return store.database.read(unit)


def quarantined_definitions(store: PluginStore) -> list[DefinitionRow]:
    """Whatever waits for a person, of all plugins."""

    def unit(tx: Transaction) -> list[DefinitionRow]:
        found = [
            row
            for plugin in sorted(count_quarantined(tx, store.tenant))
            for row in definitions_of(tx, store.tenant, plugin)
        ]
        return [row for row in found if row.standing is DefinitionStatus.QUARANTINED]

    return store.database.read(unit)


def accept_definition(store: PluginStore, plugin: str, kind: str, name: str, shown_hash: str, by: str) -> DefinitionRow:
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
        if row.standing is DefinitionStatus.BAD:
            raise PluginError(
                f"{found} {name} cannot be used: {row.reason}",
                code="tool.bad",
                hint=row.repair,
                details={"plugin": found},
            )
        if row.standing is DefinitionStatus.ACCEPTED and row.hash == shown_hash:
            return row
        if row.standing is not DefinitionStatus.QUARANTINED or row.waiting_hash != shown_hash:
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
        accept_quarantined(tx, store.tenant, row, shape=stable_hash(kind, json.loads(new)), by=by, at=at)
        return find_definition(tx, store.tenant, found, kind, name) or row

    return store.database.write(unit)
