"""Meeting a server: what it lists is compared with the rows, and what came of that is recorded in one unit of work."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.core.events_definitions import PluginDefinitionChanged, PluginDefinitionsLeftOut, PluginDefinitionsTrusted
from paddock.core.ids import Tenant
from paddock.plugins.definitions.comparing import Comparison, Finding, compare
from paddock.plugins.definitions.examining import RESOURCE, Examined
from paddock.plugins.definitions.readable import difference
from paddock.plugins.definitions.rows import (
    lock_plugin,
    note_met,
    note_seen,
    pins_of,
    save_finding,
    texts_of,
)
from paddock.plugins.definitions.standing import Standing
from paddock.plugins.plugin_store import PluginStore
from paddock.store.database import Transaction

MOST_TOLD = 100  # definitions of one listing whose change is recorded one by one
LONGEST_TOLD = 8_000  # characters of a difference
LARGEST_TOLD = 65_536  # characters of a definition whose difference is recorded; the hashes of any are


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

    def unit(tx: Transaction) -> Comparison:
        if not lock_plugin(tx, plugin):  # uninstalled meanwhile
            return compare((), (), first=False)
        first = note_met(tx, tenant, plugin, store.now())
        found = compare(pins_of(tx, tenant, plugin), listed, first=first)
        _record(tx, store, tenant, plugin, found)
        if left_out:
            store.publish(tx, PluginDefinitionsLeftOut(name=plugin, kept=len(listed), left_out=left_out))
        return found

    return store.database.write(unit)


def _record(tx: Transaction, store: PluginStore, tenant: Tenant, plugin: str, found: Comparison) -> None:
    at = store.now()
    news = [finding for finding in found.all() if finding.news]
    told = [one for one in news if one.standing is not Standing.ACCEPTED or not (found.first or one.kind == RESOURCE)]
    for finding in told[:MOST_TOLD]:
        store.publish(tx, _event(tx, tenant, plugin, finding))
    for finding in news:
        save_finding(tx, tenant, plugin, finding, at)
    if found.first:
        taken = sum(one.standing is Standing.ACCEPTED for one in found.new)
        store.publish(tx, PluginDefinitionsTrusted(name=plugin, accepted=taken, kept_back=len(news) - taken))
    note_seen(tx, tenant, plugin, at)


def _event(tx: Transaction, tenant: Tenant, plugin: str, finding: Finding) -> PluginDefinitionChanged:
    listed: Examined | None = finding.listed
    old = texts_of(tx, tenant, plugin, finding.kind, finding.name).accepted if finding.pinned else ""
    new = listed.text if listed is not None and finding.standing is not Standing.ACCEPTED else ""
    lines = difference(old, new) if new and len(old) + len(new) <= LARGEST_TOLD else []
    return PluginDefinitionChanged(
        name=plugin,
        kind=finding.kind,
        definition=finding.name,
        standing=finding.standing.value,
        reason=finding.reason,
        old_hash=finding.pinned.hash if finding.pinned else None,
        new_hash=listed.hash if listed else None,
        difference="\n".join(lines)[:LONGEST_TOLD],
    )
