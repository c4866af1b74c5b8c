"""What somebody may know of who does not operate the host: their tenant's plugins, as far as the rules let them call.

What their tenant has not is as unknown as what nobody has. Plugins whose servers never ran are known by name alone.
"""

from __future__ import annotations

from typing import Any

from paddock.core.call import CallContext
from paddock.core.errors import NotFound, PluginError
from paddock.gate.catalogue import Entry, Target
from paddock.gate.documents import READ
from paddock.gate.gate import Gate
from paddock.gate.offering import Offered, offered_to


class Offers:
    """The plugins of a tenant, for its people.

    Args:
        gate: Where they are known and decided about.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def plugins(self, context: CallContext) -> list[dict[str, Any]]:
        """Each plugin that has something for whoever acts in this context, by name."""
        entries = sorted(self._gate.catalogue(context.tenant).entries(), key=lambda entry: entry.manifest.name)
        return [_listed(entry) for entry in entries if not entry.met or await self._callables(entry, context)]

    async def plugin(self, name: str, context: CallContext) -> dict[str, Any]:
        """One plugin, with `callables`: what whoever acts in this context may call of it.

        Raises:
            NotFound: their tenant has not enabled it.
        """
        entry = self._gate.catalogue(context.tenant).entry(name)
        offered = await self._callables(entry, context)
        return _listed(entry) | {"callables": [one.to_json() for one in offered]}

    async def names(self, name: str, context: CallContext) -> frozenset[str]:
        """The names of what they may call of a plugin. Raises as `plugin` does."""
        entry = self._gate.catalogue(context.tenant).entry(name)
        return frozenset(one.target.spec.name for one in await self._callables(entry, context))

    async def reads(self, name: str, context: CallContext) -> bool:
        """Whether they may read the documents of a plugin; who may read one may read all. Raises as `plugin` does."""
        entry = self._gate.catalogue(context.tenant).entry(name)
        return bool(await offered_to(context, (Target(entry, READ),), self._gate.decides))

    async def gives(self, name: str, prompt: str, context: CallContext) -> bool:
        """Whether they may have a prompt of a plugin. Raises as `plugin` does."""
        try:
            found = self._gate.catalogue(context.tenant).prompt(name, prompt)
        except NotFound:
            return False  # not any more
        except PluginError:
            return True  # nobody serves it, and the rules keep it from nobody
        return not isinstance(found, Target) or bool(await offered_to(context, (found,), self._gate.decides))

    async def _callables(self, entry: Entry, context: CallContext) -> list[Offered]:
        targets = self._gate.catalogue(context.tenant).offered_by(entry.manifest.name)
        return await offered_to(context, targets, self._gate.decides)


def _listed(entry: Entry) -> dict[str, Any]:
    manifest = entry.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "state": "enabled",
        "kind": manifest.kind.value,
        "description": manifest.description,
    }
