"""Review and acceptance of quarantined definitions: a person accepts exactly the definition they were shown."""

from __future__ import annotations

import json
from typing import Annotated

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound, PluginError
from paddock.core.events.tool_definitions import PluginDefinitionAccepted
from paddock.plugins.store.lookup import require_plugin
from paddock.plugins.store.rows import count_quarantined
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import DefinitionStatus, stable_hash
from paddock.plugins.tool_pinning.render import diff_lines
from paddock.plugins.tool_pinning.rows import (
    DefinitionJson,
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
from paddock.plugins.tool_pinning.scan.findings import HintJson, ScanFinding
from paddock.plugins.tool_pinning.scan.scan import find_collisions, find_installed_names, listed_texts
from paddock.store.database import Transaction


class DefinitionReviewJson(DefinitionJson):
    """A definition for review."""

    difference: Annotated[list[str], "The lines in which it differs from the accepted definition."]
    hints: list[HintJson]


class DefinitionReview(Struct, frozen=True):
    """A definition with its line-by-line difference from the accepted one; empty if nothing is quarantined."""

    row: DefinitionRow
    texts: DefinitionTexts
    installed_names: tuple[PluginNames, ...] = ()  # other plugins that its text may mention

    @property
    def difference(self) -> tuple[str, ...]:
        """Computed on demand: it may take long, and the store must not wait for it."""
        return tuple(diff_lines(self.texts.accepted, self.texts.waiting)) if self.row.waiting_hash is not None else ()

    @property
    def hints(self) -> tuple[ScanFinding, ...]:
        """The suspicious texts in what the server lists now."""
        text = self.texts.waiting or self.texts.accepted
        scan = scan_definitions(self.row.plugin, "", listed_texts([(self.row.kind, self.row.name, text)]))
        return scan.findings + find_collisions(scan, self.installed_names)

    def to_value(self) -> DefinitionReviewJson:
        hints = [finding.to_value() for finding in self.hints]
        return {**self.row.to_value(), "difference": list(self.difference), "hints": hints}


def review_definitions(store: PluginStore, plugin: str) -> list[DefinitionReview]:
    """Load all definitions of a plugin's server for review.

    Raises:
        NotFound: it is not installed.
    """

    def unit(tx: Transaction) -> list[DefinitionReview]:
        name = require_plugin(tx, plugin).name
        installed_names = find_installed_names(tx, store.tenant)
        return [
            DefinitionReview(row, texts_of(tx, store.tenant, name, row.kind, row.name), installed_names)
            for row in definitions_of(tx, store.tenant, name)
        ]

    return store.database.read(unit)


def quarantined_definitions(store: PluginStore) -> list[DefinitionRow]:
    """Return the quarantined definitions of all plugins."""

    def unit(tx: Transaction) -> list[DefinitionRow]:
        rows = [
            row
            for plugin in sorted(count_quarantined(tx, store.tenant))
            for row in definitions_of(tx, store.tenant, plugin)
        ]
        return [row for row in rows if row.standing is DefinitionStatus.QUARANTINED]

    return store.database.read(unit)


def accept_definition(store: PluginStore, plugin: str, kind: str, name: str, shown_hash: str, by: str) -> DefinitionRow:
    """Accept a definition as the server lists it now.

    Args:
        store: The plugin store.
        plugin: The plugin's name or alias.
        kind: The kind, as in `tool`.
        name: The definition's name.
        shown_hash: The hash of the definition that the person saw.
        by: Who accepts it.

    Raises:
        NotFound: no such plugin, or no such definition.
        Conflict: the server has changed it since it was shown.
        PluginError: it cannot be used, whoever accepts it.
    """

    def unit(tx: Transaction) -> DefinitionRow:
        plugin_name = require_plugin(tx, plugin).name
        lock_plugin(tx, plugin_name)
        row = find_definition(tx, store.tenant, plugin_name, kind, name)
        if row is None:
            raise NotFound(
                f"{plugin_name} lists no {kind} {name!r}",
                code="definition.not_found",
                action=Action.of("plugin.show", plugin=plugin_name, tenant=store.tenant),
            )
        if row.standing is DefinitionStatus.BAD:
            raise PluginError(
                f"{plugin_name} {name} cannot be used: {row.reason}",
                code="tool.bad",
                hint=row.repair,
                details={"plugin": plugin_name},
            )
        if row.standing is DefinitionStatus.ACCEPTED and row.hash == shown_hash:
            return row
        if row.standing is not DefinitionStatus.QUARANTINED or row.waiting_hash != shown_hash:
            raise Conflict(
                f"{plugin_name} {name} changed after it was shown to you",
                code="definition.changed_meanwhile",
                action=Action.of("plugin.accept", plugin=plugin_name, tenant=store.tenant),
                details={"plugin": plugin_name, "hash": row.waiting_hash or row.hash},
            )
        waiting_text = texts_of(tx, store.tenant, plugin_name, kind, name).waiting
        event = PluginDefinitionAccepted(
            name=plugin_name, kind=kind, definition=name, old_hash=row.hash, new_hash=shown_hash, accepted_by=by
        )
        store.publish(tx, event)
        shape = stable_hash(kind, json.loads(waiting_text))
        accept_quarantined(tx, store.tenant, row, shape=shape, by=by, now=store.now())
        return find_definition(tx, store.tenant, plugin_name, kind, name) or row

    return store.database.write(unit)
