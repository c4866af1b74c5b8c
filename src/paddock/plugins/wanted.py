"""What somebody wants to install or upgrade to, as they named it; and from where, with what is known of the plugin."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.plugins.environments.describing import Choices
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import require_plugin
from paddock.plugins.registry_choices import choices_added, installed_before
from paddock.plugins.rows import PluginRow
from paddock.plugins.sources import Source, at_version
from paddock.plugins.versions import recorded_source


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package that somebody named.

    Attributes:
        source: Where it is; None for where the installed version came from.
        choices: What they say about a registry's server.
        upgrade: The plugin that it must be the next version of, by name or alias.
        ref: Another tag, branch or version than the installed one came from.
        downgrade: Whether it may be older than what is installed.
        recorded_as: What is kept as its source, where that is not what it is read from.
    """

    source: Source | None
    choices: Choices | None = None
    upgrade: str | None = None
    ref: str | None = None
    downgrade: bool = False
    recorded_as: Source | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The same with what is known here."""

    source: Source
    choices: Choices | None
    plugin: PluginRow | None  # which is to be upgraded


def find(store: PluginStore, wanted: Wanted) -> Found:
    """Where to fetch it, and with which choices: what was chosen before stays chosen.

    Raises:
        NotFound: the plugin that is to be upgraded is not installed.
        OperatorError: the ref is none.
    """
    if wanted.upgrade is None:
        assert wanted.source is not None
        if wanted.choices is None:
            return Found(wanted.source, None, None)
        return Found(*installed_before(store, wanted.source, wanted.choices), None)
    name = wanted.upgrade
    plugin = store.database.read(lambda tx: require_plugin(tx, name))
    source = wanted.source or recorded_source(store, plugin)
    if wanted.source is None and wanted.ref:
        source = at_version(source, wanted.ref)
    if not source.kind.registry:
        return Found(source, None, plugin)
    return Found(source, choices_added(store, plugin, wanted.choices or Choices()), plugin)
