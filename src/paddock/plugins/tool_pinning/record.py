"""Records a server's listing: compares it with the pinned definitions and saves the result in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from paddock.core.events.tool_definitions import (
    PluginDefinitionChanged,
    PluginDefinitionsLeftOut,
    PluginDefinitionsTrusted,
)
from paddock.core.ids import PluginName, Tenant
from paddock.plugins.store.rows import find_grant
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.diff import DefinitionDiff, ListingDiff, diff_listing
from paddock.plugins.tool_pinning.normalize import RESOURCE, TOOL, DefinitionStatus, NormalizedDefinition
from paddock.plugins.tool_pinning.render import diff_lines
from paddock.plugins.tool_pinning.rows import (
    LastListing,
    find_pins,
    lock_plugin,
    save_diff,
    save_first_listing,
    save_last_listing,
    save_last_seen,
    texts_of,
    was_listed,
)
from paddock.plugins.tool_pinning.scan.collisions import PluginNames
from paddock.plugins.tool_pinning.scan.definition_text import scan_definitions
from paddock.plugins.tool_pinning.scan.findings import ScanFinding
from paddock.plugins.tool_pinning.scan.scan import find_collisions, find_installed_names, flagged_event, listed_texts
from paddock.store.database import Transaction

MAX_RECORDED_CHANGES = 100  # changes of one listing that are recorded one by one
MAX_RECORDED_DIFF_CHARS = 8_000  # of one recorded difference
# definitions up to this size have their difference recorded; the hashes of all are
MAX_DIFFED_DEFINITION_CHARS = 65_536
MAX_DIFFED_TOTAL_CHARS = 262_144  # for all definitions whose differences are recorded

# The rendered difference by kind, name, accepted hash and listed hash.
_Differences: TypeAlias = Mapping[tuple[str, str, str | None, str | None], str]


def record_listing(
    store: PluginStore,
    tenant: Tenant,
    plugin: str,
    listed: Sequence[NormalizedDefinition],
    *,
    digest: str,
    left_out: int = 0,
    tried: bool = False,
) -> ListingDiff:
    """Compare a server's listing with the accepted definitions, and record what changed.

    What it lists in a trial is accepted as a first listing is, and so is what it adds when it first runs: a trial may
    lack a grant. A server that runs is asked itself, and its trials change nothing.

    Args:
        store: The plugin store.
        tenant: The tenant.
        plugin: The plugin's own name.
        listed: The normalised listing.
        digest: Of the files that listed it.
        left_out: How many more definitions it lists than are kept.
        tried: Whether that was in a trial.
    """
    differences = _render_differences(store, tenant, plugin, listed)
    findings = _scan_changes(store, tenant, plugin, listed)

    def unit(tx: Transaction) -> ListingDiff:
        uninstalled = not lock_plugin(tx, plugin)
        if uninstalled or (tried and _is_in_use(tx, tenant, plugin)):
            return diff_listing((), (), first=False)
        first = not was_listed(tx, tenant, plugin) if tried else save_first_listing(tx, tenant, plugin, store.now())
        save_last_listing(tx, tenant, plugin, LastListing(digest, store.now(), tried))
        diff = diff_listing(find_pins(tx, tenant, plugin), listed, first=first)
        _record(tx, store, tenant, plugin, diff, differences)
        changed_keys = {(change.kind, change.name) for change in diff.all_diffs() if change.is_change}
        if new_findings := [finding for finding in findings if (finding.kind, finding.name) in changed_keys]:
            store.publish(tx, flagged_event(plugin, "met" if first else "changed", new_findings))
        if left_out:
            store.publish(tx, PluginDefinitionsLeftOut(name=plugin, kept=len(listed), left_out=left_out))
        return diff

    return store.database.write(unit)


def _is_in_use(tx: Transaction, tenant: Tenant, plugin: str) -> bool:
    grant = find_grant(tx, tenant, PluginName(plugin))
    return grant is not None and grant.enabled and was_listed(tx, tenant, plugin)


def _render_differences(
    store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[NormalizedDefinition]
) -> _Differences:
    """Render the differences between listed and accepted definitions, before the transaction that records them and
    locks."""

    def unit(tx: Transaction) -> list[tuple[DefinitionDiff, str]]:
        diff = diff_listing(find_pins(tx, tenant, plugin), listed, first=not was_listed(tx, tenant, plugin))
        texts: list[tuple[DefinitionDiff, str]] = []
        chars_left = MAX_DIFFED_TOTAL_CHARS
        for change in _changes_to_record(diff):
            old = texts_of(tx, tenant, plugin, change.kind, change.name).accepted if change.pinned else ""
            size = len(old) + len(_quarantined_text(change))
            if size <= min(MAX_DIFFED_DEFINITION_CHARS, chars_left):
                texts.append((change, old))
                chars_left -= size
        return texts

    return {
        _diff_key(change): "\n".join(diff_lines(old, new))[:MAX_RECORDED_DIFF_CHARS]
        for change, old in store.database.read(unit)
        if (new := _quarantined_text(change))
    }


def _scan_changes(
    store: PluginStore, tenant: Tenant, plugin: str, listed: Sequence[NormalizedDefinition]
) -> tuple[ScanFinding, ...]:
    """Scan the changed definitions for suspicious texts, before the transaction that records them."""

    def unit(tx: Transaction) -> tuple[set[tuple[str, str]], tuple[PluginNames, ...]]:
        diff = diff_listing(find_pins(tx, tenant, plugin), listed, first=not was_listed(tx, tenant, plugin))
        changed_keys = {(one.kind, one.name) for one in diff.all_diffs() if one.is_change and one.listed is not None}
        return changed_keys, find_installed_names(tx, tenant) if changed_keys else ()

    changed_keys, installed_names = store.database.read(unit)
    changed_texts = ((one.kind, one.name, one.text) for one in listed if (one.kind, one.name) in changed_keys)
    scan = scan_definitions(plugin, "", listed_texts(changed_texts))
    siblings = PluginNames(plugin, "", tuple(one.name for one in listed if one.kind == TOOL))
    return scan.findings + find_collisions(scan, (*installed_names, siblings))


def _record(
    tx: Transaction, store: PluginStore, tenant: Tenant, plugin: str, diff: ListingDiff, rendered: _Differences
) -> None:
    now = store.now()
    changes = [change for change in diff.all_diffs() if change.is_change]
    for change in _changes_to_record(diff):
        store.publish(tx, _change_event(plugin, change, rendered.get(_diff_key(change), "")))
    for change in changes:
        save_diff(tx, tenant, plugin, change, now)
    if diff.first and (changes or not diff.unchanged):  # otherwise a trial has listed the same
        accepted = sum(one.standing is DefinitionStatus.ACCEPTED for one in diff.new)
        store.publish(tx, PluginDefinitionsTrusted(name=plugin, accepted=accepted, kept_back=len(changes) - accepted))
    save_last_seen(tx, tenant, plugin, now)


def _changes_to_record(diff: ListingDiff) -> list[DefinitionDiff]:
    """Return the changes that are recorded one by one."""
    return [
        one
        for one in diff.all_diffs()
        if one.is_change and (one.standing is not DefinitionStatus.ACCEPTED or not (diff.first or one.kind == RESOURCE))
    ][:MAX_RECORDED_CHANGES]


def _diff_key(change: DefinitionDiff) -> tuple[str, str, str | None, str | None]:
    old = change.pinned.hash if change.pinned else None
    return change.kind, change.name, old, change.listed.hash if change.listed else None


def _quarantined_text(change: DefinitionDiff) -> str:
    """Return the listed text if it is not accepted."""
    return change.listed.text if change.listed is not None and change.standing is not DefinitionStatus.ACCEPTED else ""


def _change_event(plugin: str, change: DefinitionDiff, difference: str) -> PluginDefinitionChanged:
    _, _, old, new = _diff_key(change)
    return PluginDefinitionChanged(
        name=plugin,
        kind=change.kind,
        definition=change.name,
        standing=change.standing.value,
        reason=change.reason,
        old_hash=old,
        new_hash=new,
        difference=difference,
    )


RELIST_BURST = 5  # listings without a pause
MIN_RELIST_INTERVAL_S = 1.0  # between two listings after that
MAX_RELIST_INTERVAL_S = 30.0


class RelistBackoff:
    """Limits how often one server's definitions are listed again. While it keeps changing, each pause is twice the
    last."""

    def __init__(self) -> None:
        self._earliest = 0.0
        self._pause = MIN_RELIST_INTERVAL_S

    def next_delay(self, now: float) -> float:
        """Count one listing and return after how many seconds it may happen."""
        earliest = max(self._earliest, now - RELIST_BURST * MIN_RELIST_INTERVAL_S)
        if earliest <= now:
            self._pause = MIN_RELIST_INTERVAL_S
        self._earliest = earliest + self._pause
        if earliest <= now:
            return 0.0
        self._pause = min(2 * self._pause, MAX_RELIST_INTERVAL_S)
        return earliest - now
