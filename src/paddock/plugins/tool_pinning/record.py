"""Meeting a server: what it lists is compared with the rows, and what came of that is recorded in one unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from paddock.core.events.tool_definitions import (
    PluginDefinitionChanged,
    PluginDefinitionsLeftOut,
    PluginDefinitionsTrusted,
)
from paddock.core.ids import Tenant
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.diff import DefinitionDiff, ListingDiff, diff_listing
from paddock.plugins.tool_pinning.normalize import RESOURCE, TOOL, DefinitionStatus, NormalizedDefinition
from paddock.plugins.tool_pinning.render import diff_lines
from paddock.plugins.tool_pinning.rows import (
    find_pins,
    lock_plugin,
    save_diff,
    save_first_listing,
    save_last_seen,
    texts_of,
    was_listed,
)
from paddock.plugins.tool_pinning.scan.collisions import PluginNames
from paddock.plugins.tool_pinning.scan.definition_text import scan_definitions
from paddock.plugins.tool_pinning.scan.findings import ScanFinding
from paddock.plugins.tool_pinning.scan.scan import find_collisions, find_installed_names, flagged_event, listed_texts
from paddock.store.database import Transaction

MAX_RECORDED_CHANGES = 100  # definitions of one listing whose change is recorded one by one
MAX_RECORDED_DIFF_CHARS = 8_000  # characters of a difference
MAX_DIFFED_DEFINITION_CHARS = 65_536  # characters of a definition whose difference is recorded; the hashes of any are
MAX_DIFFED_TOTAL_CHARS = 262_144  # characters of all whose differences are recorded

# What is told of a definition that differs, by what it is and the hashes of what was accepted and what is listed.
_Differences: TypeAlias = Mapping[tuple[str, str, str | None, str | None], str]


def record_listing(
    store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[NormalizedDefinition], *, left_out: int = 0
) -> ListingDiff:
    """Compare what a server lists with what people accepted, and record what is new about it.

    Args:
        store: The plugin store.
        tenant: For whose people.
        plugin: The plugin's own name.
        listed: What the server lists, examined.
        left_out: How much more it lists than is kept.
    """
    told = _render_differences(store, tenant, plugin, listed)
    odd = _scan_changes(store, tenant, plugin, listed)

    def unit(tx: Transaction) -> ListingDiff:
        if not lock_plugin(tx, plugin):  # uninstalled meanwhile
            return diff_listing((), (), first=False)
        first = save_first_listing(tx, tenant, plugin, store.now())
        found = diff_listing(find_pins(tx, tenant, plugin), listed, first=first)
        _record(tx, store, tenant, plugin, found, told)
        news = {(one.kind, one.name) for one in found.all_diffs() if one.is_change}
        if hints := [hint for hint in odd if (hint.kind, hint.name) in news]:
            store.publish(tx, flagged_event(plugin, "met" if first else "changed", hints))
        if left_out:
            store.publish(tx, PluginDefinitionsLeftOut(name=plugin, kept=len(listed), left_out=left_out))
        return found

    return store.database.write(unit)


def _render_differences(
    store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[NormalizedDefinition]
) -> _Differences:
    """How what is listed differs from what was accepted: worked out before the unit that records it, which locks."""

    def look(tx: Transaction) -> list[tuple[DefinitionDiff, str]]:
        found = diff_listing(find_pins(tx, tenant, plugin), listed, first=not was_listed(tx, tenant, plugin))
        texts: list[tuple[DefinitionDiff, str]] = []
        room = MAX_DIFFED_TOTAL_CHARS
        for one in _changes_to_record(found):
            old = texts_of(tx, tenant, plugin, one.kind, one.name).accepted if one.pinned else ""
            size = len(old) + len(_quarantined_text(one))
            if size <= min(MAX_DIFFED_DEFINITION_CHARS, room):
                texts.append((one, old))
                room -= size
        return texts

    return {
        _diff_key(one): "\n".join(diff_lines(old, new))[:MAX_RECORDED_DIFF_CHARS]
        for one, old in store.database.read(look)
        if (new := _quarantined_text(one))
    }


def _scan_changes(
    store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[NormalizedDefinition]
) -> tuple[ScanFinding, ...]:
    """What is odd about the words that are news: told when they come, as what differs is."""

    def look(tx: Transaction) -> tuple[set[tuple[str, str]], tuple[PluginNames, ...]]:
        found = diff_listing(find_pins(tx, tenant, plugin), listed, first=not was_listed(tx, tenant, plugin))
        news = {(one.kind, one.name) for one in found.all_diffs() if one.is_change and one.listed is not None}
        return news, find_installed_names(tx, tenant) if news else ()

    news, everybody = store.database.read(look)
    said = ((one.kind, one.name, one.text) for one in listed if (one.kind, one.name) in news)
    own = scan_definitions(plugin, "", listed_texts(said))
    siblings = PluginNames(plugin, "", tuple(one.name for one in listed if one.kind == TOOL))
    return own.findings + find_collisions(own, (*everybody, siblings))


def _record(
    tx: Transaction, store: PluginStore, tenant: Tenant, plugin: str, found: ListingDiff, differences: _Differences
) -> None:
    at = store.now()
    news = [finding for finding in found.all_diffs() if finding.is_change]
    for finding in _changes_to_record(found):
        store.publish(tx, _change_event(plugin, finding, differences.get(_diff_key(finding), "")))
    for finding in news:
        save_diff(tx, tenant, plugin, finding, at)
    if found.first:
        taken = sum(one.standing is DefinitionStatus.ACCEPTED for one in found.new)
        store.publish(tx, PluginDefinitionsTrusted(name=plugin, accepted=taken, kept_back=len(news) - taken))
    save_last_seen(tx, tenant, plugin, at)


def _changes_to_record(found: ListingDiff) -> list[DefinitionDiff]:
    """What is recorded one by one."""
    return [
        one
        for one in found.all_diffs()
        if one.is_change
        and (one.standing is not DefinitionStatus.ACCEPTED or not (found.first or one.kind == RESOURCE))
    ][:MAX_RECORDED_CHANGES]


def _diff_key(finding: DefinitionDiff) -> tuple[str, str, str | None, str | None]:
    old = finding.pinned.hash if finding.pinned else None
    return finding.kind, finding.name, old, finding.listed.hash if finding.listed else None


def _quarantined_text(finding: DefinitionDiff) -> str:
    """What the server says and nobody accepted."""
    return (
        finding.listed.text if finding.listed is not None and finding.standing is not DefinitionStatus.ACCEPTED else ""
    )


def _change_event(plugin: str, finding: DefinitionDiff, told: str) -> PluginDefinitionChanged:
    _, _, old, new = _diff_key(finding)
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


RELIST_BURST = 5  # looks without a pause
MIN_RELIST_INTERVAL_S = 1.0  # seconds between two looks after that
MAX_RELIST_INTERVAL_S = 30.0


class RelistBackoff:
    """When the next look at what one server lists may be. As long as it cannot wait, each pause is twice the last."""

    def __init__(self) -> None:
        self._earliest = 0.0
        self._pause = MIN_RELIST_INTERVAL_S

    def next_delay(self, now: float) -> float:
        """Count one look; how many seconds from now it may be."""
        earliest = max(self._earliest, now - RELIST_BURST * MIN_RELIST_INTERVAL_S)
        if earliest <= now:
            self._pause = MIN_RELIST_INTERVAL_S
        self._earliest = earliest + self._pause
        if earliest <= now:
            return 0.0
        self._pause = min(2 * self._pause, MAX_RELIST_INTERVAL_S)
        return earliest - now
