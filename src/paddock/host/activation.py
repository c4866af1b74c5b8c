"""Plugins that are switched on for a tenant, in OSQR's words.

Switching one on for a single person comes with personas; here a plugin is on for all of a tenant, or off.
"""

from __future__ import annotations

from typing import Any

from paddock.core.call import CallContext
from paddock.core.events_lifecycle import PluginEnabled
from paddock.gate.gate import Gate
from paddock.gate.offering import offered_to
from paddock.ledger.feed import Wanted, page
from paddock.manifest.behaviour import summary_of
from paddock.manifest.model import Manifest
from paddock.store.database import Database, Transaction


class Activation:
    """What is on, and what that changes.

    Args:
        gate: Where plugins are known and decided about.
        database: Where the ledger is, which knows since when they are on.
    """

    def __init__(self, gate: Gate, database: Database) -> None:
        self._gate = gate
        self._database = database

    async def active(self, context: CallContext) -> list[dict[str, Any]]:
        """Every plugin that is on, with those of its tools that whoever asks may call."""
        catalogue = self._gate.catalogue(context.tenant)
        manifests = sorted((entry.manifest for entry in catalogue.entries()), key=lambda manifest: manifest.name)
        since = await self._database.read(lambda tx: _since(tx, context.tenant, manifests))
        return [
            {
                "id": manifest.name,
                "name": manifest.title or manifest.name,
                "activated_at": since[manifest.name],
                "tools": await self._tools(manifest.name, context),
            }
            for manifest in manifests
        ]

    async def summary(self, plugin: str, context: CallContext) -> dict[str, Any]:
        """What a plugin that is on changes and offers.

        Raises:
            NotFound: it is not on.
        """
        manifest = self._gate.catalogue(context.tenant).entry(plugin).manifest
        name = manifest.title or manifest.name
        changes = (
            summary_of(manifest.behaviour) if manifest.behaviour else f"{name} changes nothing about how I answer."
        )
        return {"behavioral_summary": changes, "tools_available": await self._tools(manifest.name, context)}

    async def _tools(self, plugin: str, context: CallContext) -> list[str]:
        targets = self._gate.catalogue(context.tenant).offered_by(plugin)
        return [one.target.spec.name for one in await offered_to(context, targets, self._gate.decides)]


def _since(tx: Transaction, tenant: str, manifests: list[Manifest]) -> dict[str, str | None]:
    """When each was switched on last, as the ledger has it."""
    found: dict[str, str | None] = {}
    for manifest in manifests:
        last = page(tx, tenant, Wanted(type=PluginEnabled.type, plugin=manifest.name), limit=1)
        found[manifest.name] = last[0].at if last else None
    return found
