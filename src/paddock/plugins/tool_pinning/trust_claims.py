"""Takes a plugin's word for some of its tools, or no longer does; both are recorded in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound, OperatorError
from paddock.core.events.tool_definitions import PluginClaimsDistrusted, PluginClaimsTrusted
from paddock.core.ids import PluginName
from paddock.core.printable import printable
from paddock.manifest.effects import HARMLESS_EFFECTS
from paddock.manifest.permissions import callable_effects
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.rows import find_version
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.rows import lock_plugin
from paddock.plugins.tool_pinning.tool_trust import (
    ToolTrustRow,
    TrustedWord,
    delete_trust,
    may_trust_to_read,
    save_trust,
    trust_of,
)
from paddock.plugins.tool_pinning.tools import PluginTools, UsableTool, read_version_tools
from paddock.store.database import Transaction

UNRECORDED_PRINCIPAL = "host"


class TrustChange(Struct, frozen=True):
    """The tools of which something is believed from now on, or no longer."""

    name: PluginName
    version: str
    tools: tuple[str, ...]


def trust_claims(
    store: PluginStore, plugin: str, word: TrustedWord, tools: Sequence[str] | None, shown: Mapping[str, str]
) -> TrustChange:
    """Take a plugin's word for some of its tools, as they are defined now.

    Args:
        store: The plugin store, acting as the person.
        plugin: The plugin's name or alias.
        word: What is believed.
        tools: The tools; None for all that say that they only read.
        shown: The hashes of the definitions that the person saw, by tool.

    Raises:
        NotFound: no such plugin, or no such tool.
        Conflict: a server has changed a definition since it was shown.
        OperatorError: there is nothing to believe of a tool.
    """

    def unit(tx: Transaction) -> TrustChange:
        row = require_plugin(tx, plugin)
        lock_plugin(tx, row.name)
        version = find_version(tx, row.name, row.current_version)
        if version is None:
            raise pinned_version_missing_error(row)
        known = read_version_tools(tx, store, version, manifest_of(version))
        chosen = _choose_listed(store, known, word, tools, shown)
        by, now = store.by or UNRECORDED_PRINCIPAL, store.now()
        for name, definition_hash in chosen.items():
            trusted = ToolTrustRow(name, word, version.digest, definition_hash, by, now)
            save_trust(tx, store.tenant, row.name, trusted)
        names = tuple(chosen)
        if names:
            store.publish(tx, PluginClaimsTrusted(row.name, version.version, version.digest, word.value, names))
        return TrustChange(row.name, version.version, names)

    return store.database.write(unit)


def _choose_listed(
    store: PluginStore, known: PluginTools, word: TrustedWord, tools: Sequence[str] | None, shown: Mapping[str, str]
) -> dict[str, str]:
    """Return the tools to believe as they are defined now: hashes by tool.

    Raises:
        Conflict: a server has changed a definition since it was shown.
        NotFound, OperatorError: see `_choose`.
    """
    usable = {tool.spec.name: tool for tool in known.usable_tools()}
    chosen = {tool.spec.name: tool.hash for tool in _choose(store, known, usable, word, tools)}
    for name, definition_hash in chosen.items():
        if shown.get(name, definition_hash) != definition_hash:
            raise Conflict(
                f"{known.name} {name} changed after it was shown to you",
                code="definition.changed_meanwhile",
                action=Action.of("plugin.tools", plugin=known.name, tenant=store.tenant),
                details={"plugin": known.name, "hash": definition_hash},
            )
    return chosen


def _choose(
    store: PluginStore,
    known: PluginTools,
    usable: Mapping[str, UsableTool],
    word: TrustedWord,
    names: Sequence[str] | None,
) -> list[UsableTool]:
    """Return the tools to believe; those that are believed already are left out.

    Raises:
        NotFound: there is none of that name.
        OperatorError: there is nothing to believe of one of them.
    """
    believed = known.trust.reads if word is TrustedWord.READS else known.trust.errors
    if names is None:
        return [tool for tool in usable.values() if tool.marked_read_only and tool.spec.name not in believed]
    list_tools = Action.of("plugin.tools", plugin=known.name, tenant=store.tenant)
    for name in names:
        if name not in usable:
            raise NotFound(
                f"{known.name} has no tool {printable(name)!r} that may be called",
                code="callable.not_found",
                action=list_tools,
                details={"plugin": known.name},
            )
        problem = _problem_with(known, usable[name], word)
        if problem and name not in believed:
            raise OperatorError(
                f"{known.name} {name} {problem}; nothing was changed", code="trust.nothing_to_trust", action=list_tools
            )
    return [usable[name] for name in dict.fromkeys(names) if name not in believed]


def _problem_with(known: PluginTools, tool: UsableTool, word: TrustedWord) -> str:
    """Say why there is nothing to believe of a tool; empty if there is."""
    only_reads = HARMLESS_EFFECTS.issuperset(callable_effects(known.manifest, tool.spec))
    if word is TrustedWord.ERRORS:
        return "only reads: its failures are never in doubt" if only_reads else ""
    if tool.marked_read_only:
        return ""
    if may_trust_to_read(tool.spec):
        return "can change nothing in its cage, and needs no trust"
    return "does not say that it only reads" if tool.spec.effects is None else "has declared effects, which count"


def distrust_claims(store: PluginStore, plugin: str, word: TrustedWord, tools: Sequence[str] | None) -> TrustChange:
    """No longer take a plugin's word for some of its tools, or for all of them.

    Raises:
        NotFound: no such plugin.
    """

    def unit(tx: Transaction) -> TrustChange:
        row = require_plugin(tx, plugin)
        lock_plugin(tx, row.name)
        names = tuple(
            trusted.tool
            for trusted in trust_of(tx, store.tenant, row.name)
            if trusted.word is word and (tools is None or trusted.tool in tools)
        )
        for name in names:
            delete_trust(tx, store.tenant, row.name, name, word)
        if names:
            store.publish(tx, PluginClaimsDistrusted(row.name, word.value, names))
        return TrustChange(row.name, row.current_version, names)

    return store.database.write(unit)
