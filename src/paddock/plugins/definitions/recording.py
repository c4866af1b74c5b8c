"""Meeting a server: what it lists is compared with the rows, and what came of that is recorded in one unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from paddock.core.events_definitions import PluginDefinitionChanged, PluginDefinitionsLeftOut, PluginDefinitionsTrusted
from paddock.core.ids import Tenant
from paddock.plugins.definitions.comparing import Comparison, Finding, compare
from paddock.plugins.definitions.examining import RESOURCE, TOOL, Examined
from paddock.plugins.definitions.flagging.hints import Hint
from paddock.plugins.definitions.flagging.neighbours import Names
from paddock.plugins.definitions.flagging.reading import read_words
from paddock.plugins.definitions.flagging.surveying import beside_others, flagged_event, listed_words, names_of_all
from paddock.plugins.definitions.readable import difference
from paddock.plugins.definitions.rows import (
    lock_plugin,
    note_met,
    note_seen,
    pins_of,
    save_finding,
    texts_of,
    was_met,
)
from paddock.plugins.definitions.standing import Standing
from paddock.plugins.plugin_store import PluginStore
from paddock.store.database import Transaction

MOST_TOLD = 100  # definitions of one listing whose change is recorded one by one
LONGEST_TOLD = 8_000  # characters of a difference
LARGEST_TOLD = 65_536  # characters of a definition whose difference is recorded; the hashes of any are
MOST_COMPARED = 262_144  # characters of all whose differences are recorded

# What is told of a definition that differs, by what it is and the hashes of what was accepted and what is listed.
_Differences: TypeAlias = Mapping[tuple[str, str, str | None, str | None], str]


def meet(
    store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[Examined], *, left_out: int = 0
) -> Comparison:
    """Compare what a server lists with what people accepted, and record what is new about it.

    Args:
        store: The plugin store.
        tenant: For whose people.
        plugin: The plugin's own name.
        listed: What the server lists, examined.
        left_out: How much more it lists than is kept.
    """
    told = _differences(store, tenant, plugin, listed)
    odd = _hints(store, tenant, plugin, listed)

    def unit(tx: Transaction) -> Comparison:
        if not lock_plugin(tx, plugin):  # uninstalled meanwhile
            return compare((), (), first=False)
        first = note_met(tx, tenant, plugin, store.now())
        found = compare(pins_of(tx, tenant, plugin), listed, first=first)
        _record(tx, store, tenant, plugin, found, told)
        news = {(one.kind, one.name) for one in found.all() if one.news}
        if hints := [hint for hint in odd if (hint.kind, hint.name) in news]:
            store.publish(tx, flagged_event(plugin, "met" if first else "changed", hints))
        if left_out:
            store.publish(tx, PluginDefinitionsLeftOut(name=plugin, kept=len(listed), left_out=left_out))
        return found

    return store.database.write(unit)


def _differences(store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[Examined]) -> _Differences:
    """How what is listed differs from what was accepted: worked out before the unit that records it, which locks."""

    def look(tx: Transaction) -> list[tuple[Finding, str]]:
        found = compare(pins_of(tx, tenant, plugin), listed, first=not was_met(tx, tenant, plugin))
        texts: list[tuple[Finding, str]] = []
        room = MOST_COMPARED
        for one in _told(found):
            old = texts_of(tx, tenant, plugin, one.kind, one.name).accepted if one.pinned else ""
            size = len(old) + len(_listed_instead(one))
            if size <= min(LARGEST_TOLD, room):
                texts.append((one, old))
                room -= size
        return texts

    return {
        _pair(one): "\n".join(difference(old, new))[:LONGEST_TOLD]
        for one, old in store.database.read(look)
        if (new := _listed_instead(one))
    }


def _hints(store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[Examined]) -> tuple[Hint, ...]:
    """What is odd about the words that are news: told when they come, as what differs is."""

    def look(tx: Transaction) -> tuple[set[tuple[str, str]], tuple[Names, ...]]:
        found = compare(pins_of(tx, tenant, plugin), listed, first=not was_met(tx, tenant, plugin))
        news = {(one.kind, one.name) for one in found.all() if one.news and one.listed is not None}
        return news, names_of_all(tx, tenant) if news else ()

    news, everybody = store.database.read(look)
    said = ((one.kind, one.name, one.text) for one in listed if (one.kind, one.name) in news)
    own = read_words(plugin, "", listed_words(said))
    siblings = Names(plugin, "", tuple(one.name for one in listed if one.kind == TOOL))
    return own.hints + beside_others(own, (*everybody, siblings))


def _record(
    tx: Transaction, store: PluginStore, tenant: Tenant, plugin: str, found: Comparison, differences: _Differences
) -> None:
    at = store.now()
    news = [finding for finding in found.all() if finding.news]
    for finding in _told(found):
        store.publish(tx, _event(plugin, finding, differences.get(_pair(finding), "")))
    for finding in news:
        save_finding(tx, tenant, plugin, finding, at)
    if found.first:
        taken = sum(one.standing is Standing.ACCEPTED for one in found.new)
        store.publish(tx, PluginDefinitionsTrusted(name=plugin, accepted=taken, kept_back=len(news) - taken))
    note_seen(tx, tenant, plugin, at)


def _told(found: Comparison) -> list[Finding]:
    """What is recorded one by one."""
    return [
        one
        for one in found.all()
        if one.news and (one.standing is not Standing.ACCEPTED or not (found.first or one.kind == RESOURCE))
    ][:MOST_TOLD]


def _pair(finding: Finding) -> tuple[str, str, str | None, str | None]:
    old = finding.pinned.hash if finding.pinned else None
    return finding.kind, finding.name, old, finding.listed.hash if finding.listed else None


def _listed_instead(finding: Finding) -> str:
    """What the server says and nobody accepted."""
    return finding.listed.text if finding.listed is not None and finding.standing is not Standing.ACCEPTED else ""


def _event(plugin: str, finding: Finding, told: str) -> PluginDefinitionChanged:
    _, _, old, new = _pair(finding)
    return PluginDefinitionChanged(
        name=plugin,
        kind=finding.kind,
        definition=finding.name,
        standing=finding.standing.value,
        reason=finding.reason,
        old_hash=old,
        new_hash=new,
        difference=told,
    )
