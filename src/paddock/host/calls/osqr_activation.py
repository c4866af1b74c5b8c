"""Plugins that are enabled for a tenant and what they change, in the response format of OSQR.

Activation for a single person comes with personas; here a plugin is on for a whole tenant, or off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple, TypedDict

from paddock.core.call import OPERATOR, CallContext
from paddock.core.events.plugin_management import PluginEnabled
from paddock.core.schema_annotations import DateTime
from paddock.gate.gate import Gate
from paddock.gate.permitted_targets import permitted_targets
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.manifest.consent_text import behaviour_lines, behaviour_summary
from paddock.manifest.model import Manifest
from paddock.plugins.store.lookup import resolve_plugin
from paddock.plugins.store.thread import StoreThread
from paddock.store.database import Database, Transaction


class ActivationPreview(NamedTuple):
    """The preview that a person sees before a plugin is switched on."""

    name: str
    title: str
    description: str
    changes: tuple[str, ...]  # to the assistant's behaviour; empty if it changes nothing
    tools: tuple[str, ...]
    on: bool


class ActivePluginJson(TypedDict):
    """A plugin that is active for a tenant."""

    id: str
    name: str
    activated_at: DateTime | None
    tools: Annotated[list[str], "The tools that the caller may use."]


class ActivationSummaryJson(TypedDict):
    """What an active plugin describes and offers."""

    behavioral_summary: Annotated[
        str, "How it wants the assistant to behave, as on its consent screen. The host applies none of it to answers."
    ]
    tools_available: list[str]


class OsqrActivation:
    """Lists active plugins and previews what activation changes.

    Args:
        gate: Resolves and authorizes callables.
        database: Holds the ledger, which records since when plugins are on.
        views: The plugin store, for reads.
    """

    def __init__(self, gate: Gate, database: Database, views: StoreThread) -> None:
        self._gate = gate
        self._database = database
        self._views = views

    async def active_plugins(self, context: CallContext) -> list[ActivePluginJson]:
        """List every active plugin, with the tools that the caller may use."""
        catalogue = self._gate.catalogue(context.tenant)
        manifests = sorted((entry.manifest for entry in catalogue.entries()), key=lambda manifest: manifest.name)
        since = await self._database.read(lambda tx: _enabled_since(tx, context.tenant, manifests))
        return [
            {
                "id": manifest.name,
                "name": manifest.title or manifest.name,
                "activated_at": since[manifest.name],
                "tools": await self._tools(manifest.name, context),
            }
            for manifest in manifests
        ]

    async def summary(self, plugin: str, context: CallContext) -> ActivationSummaryJson:
        """Describe what an active plugin changes and offers.

        Raises:
            NotFound: it is not on.
        """
        manifest = self._gate.catalogue(context.tenant).entry(plugin).manifest
        return {
            "behavioral_summary": _behaviour_summary(manifest),
            "tools_available": await self._tools(manifest.name, context),
        }

    async def preview(self, plugin: str, context: CallContext) -> ActivationPreview:
        """Preview what switching a plugin on changes, or has changed.

        Operators of the tenant can preview inactive plugins too; for everybody else those do not exist.

        Raises:
            NotFound: it is not installed, or not on.
        """
        catalogue = self._gate.catalogue(context.tenant)
        if OPERATOR in context.principal.roles:
            manifest = await self._views.run(lambda store: resolve_plugin(store, plugin).manifest, context.tenant)
        else:
            manifest = catalogue.entry(plugin).manifest
        on = any(entry.manifest.name == manifest.name for entry in catalogue.entries())
        tools = await self._tools(manifest.name, context) if on else [spec.name for spec in manifest.callables]
        return _build_preview(manifest, tools, on=on)

    def behaviour_plugins(self, context: CallContext) -> list[ActivationPreview]:
        """List every active plugin that describes how the assistant should behave."""
        entries = self._gate.catalogue(context.tenant).entries()
        manifests = sorted((entry.manifest for entry in entries), key=lambda manifest: manifest.name)
        return [_build_preview(manifest, (), on=True) for manifest in manifests if manifest.behaviour is not None]

    async def _tools(self, plugin: str, context: CallContext) -> list[str]:
        targets = self._gate.catalogue(context.tenant).targets_of(plugin)
        return [
            permitted.target.spec.name for permitted in await permitted_targets(context, targets, self._gate.authorizer)
        ]


def _build_preview(manifest: Manifest, tools: Iterable[str], *, on: bool) -> ActivationPreview:
    changes = tuple(behaviour_lines(manifest.behaviour)) if manifest.behaviour else ()
    return ActivationPreview(manifest.name, manifest.display_name, manifest.description, changes, tuple(tools), on)


def _behaviour_summary(manifest: Manifest) -> str:
    if manifest.behaviour:
        return behaviour_summary(manifest.behaviour)
    return f"{manifest.title or manifest.name} changes nothing about how I answer."


def _enabled_since(tx: Transaction, tenant: str, manifests: list[Manifest]) -> dict[str, str | None]:
    """Return when each plugin was last enabled, according to the ledger."""
    since: dict[str, str | None] = {}
    for manifest in manifests:
        entries = list_entries(tx, tenant, EntryFilter(type=PluginEnabled.type, plugin=manifest.name), limit=1)
        since[manifest.name] = entries[0].at if entries else None
    return since
