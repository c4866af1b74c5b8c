"""The words of an installed plugin and the names of its neighbours, read from the rows; what is odd about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddock.core.events_definitions import OddWords, PluginFlagged
from paddock.core.ids import Tenant
from paddock.manifest.model import Manifest
from paddock.plugins.definitions.examining import TOOL
from paddock.plugins.definitions.flagging.hints import Hint, varied
from paddock.plugins.definitions.flagging.neighbours import Names, Neighbourhood
from paddock.plugins.definitions.flagging.reading import OwnWords, Words, declared_words, read_words
from paddock.plugins.registry import schema_value
from paddock.plugins.rows import VersionRow, current_versions
from paddock.store.database import Transaction

MOST_TOLD = 50  # hints in one event
_CALLABLES = ("execute", "tools", "actions", "methods")  # where a manifest has them


@dataclass(frozen=True, slots=True)
class Survey:
    """What hints are made of. They are worked out when they are asked for, and no sooner: the store must not wait.

    Args:
        manifest: What its package says.
        root: Where the package is, for schemas that are files.
        everybody: The names of all that is installed.
        listed: What its server says: kind, name and canonical form of each.
    """

    manifest: Manifest
    root: Path
    everybody: tuple[Names, ...] = ()
    listed: tuple[tuple[str, str, str], ...] = ()

    def own_words(self) -> OwnWords:
        """What is known of its words without looking at others."""
        served = {(kind, name) for kind, name, _ in self.listed}
        declared = declared_words(self.manifest, lambda schema: schema_value(schema, self.root))
        effects = {spec.name: spec.effects for spec in self.manifest.callables}
        words = (*(one for one in declared if (one.kind, one.name) not in served), *listed_words(self.listed, effects))
        return read_words(self.manifest.name, self.manifest.title, words)

    def hints(self) -> tuple[Hint, ...]:
        """What is odd about its words, by themselves and beside others."""
        own = self.own_words()
        return own.hints + beside_others(own, self.everybody)


def beside_others(own: OwnWords, everybody: Iterable[Names]) -> tuple[Hint, ...]:
    """What is odd about a plugin's words beside those of others."""
    return Neighbourhood(everybody).hints_about(own)


def survey_plugin(tx: Transaction, tenant: Tenant, manifest: Manifest, root: Path, *, accepted: bool = False) -> Survey:
    """An installed plugin.

    Args:
        tx: Where the rows are.
        tenant: Whose.
        manifest: Of the version in use.
        root: Where its files are.
        accepted: Whether only what somebody accepted counts; otherwise what its server says now.
    """
    rows = tx.all(
        "SELECT kind, name, standing, definition, waiting FROM plugin_definitions WHERE tenant = ? AND plugin = ? "
        "AND standing <> 'gone' ORDER BY kind DESC, name",
        (tenant, manifest.name),
    )
    if accepted:
        listed = [(row["kind"], row["name"], row["definition"]) for row in rows if row["standing"] == "accepted"]
        return Survey(manifest, root, (), tuple(listed))
    said = tuple((row["kind"], row["name"], row["waiting"] or row["definition"]) for row in rows)
    return Survey(manifest, root, names_of_all(tx, tenant), said)


def listed_words(
    definitions: Iterable[tuple[str, str, str]], effects: Mapping[str, Any] | None = None
) -> Iterator[Words]:
    """What a server listed: kind, name and canonical form of each; what has no form is left out."""
    for kind, name, text in definitions:
        if text:
            yield Words(kind, name, json.loads(text), (effects or {}).get(name) if kind == TOOL else None)


def names_of_all(tx: Transaction, tenant: Tenant) -> tuple[Names, ...]:
    """What every installed plugin and its tools are called, as a tenant knows them."""
    rows = tx.all(
        "SELECT plugin, name FROM plugin_definitions WHERE tenant = ? AND kind = ? AND standing <> 'gone' "
        "ORDER BY name",
        (tenant, TOOL),
    )
    listed: dict[str, list[str]] = {}
    for row in rows:
        listed.setdefault(row["plugin"], []).append(row["name"])
    return names_among(current_versions(tx), listed)


def names_among(versions: Mapping[str, VersionRow], listed: Mapping[str, Iterable[str]]) -> tuple[Names, ...]:
    """The same, where the rows are at hand: the versions in use, and the tools that servers listed."""
    return tuple(with_listed(declared_names(row), listed.get(plugin, ())) for plugin, row in sorted(versions.items()))


def declared_names(row: VersionRow) -> Names:
    """What a version and its callables are called by its manifest."""
    tools = [str(one["name"]) for key in _CALLABLES for one in row.document.get(key, ()) if "name" in one]
    return Names(row.plugin, str(row.document.get("title", "")), tuple(tools))


def with_listed(names: Names, listed: Iterable[str]) -> Names:
    """With the tools that its server listed."""
    return replace(names, tools=tuple(dict.fromkeys([*names.tools, *listed])))


def flagged_event(plugin: str, occasion: str, hints: Iterable[Hint]) -> PluginFlagged:
    """What is recorded of hints; of very many only some in full."""
    told = tuple(hints)
    shown = varied(told, MOST_TOLD, lambda hint: hint.flag)
    odd = tuple(OddWords(one.kind, one.name, one.flag.value, one.where, one.words, one.why) for one in shown)
    return PluginFlagged(
        name=plugin, occasion=occasion, flags=tuple(sorted({one.flag.value for one in told})), hints=odd
    )
