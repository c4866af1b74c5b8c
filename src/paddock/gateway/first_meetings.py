"""Servers that never ran: nobody knows what they offer, so each is started once before a list is given."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.catalogue import Entry, Target
from paddock.gate.documents import READ
from paddock.host.host import Host

LONGEST: Final = 40.0
"""Seconds that whoever asks for a list waits for those. What comes later is told as a change of the list."""


class FirstMeetings:
    """Has servers met whose tools were never listed: of a client's settings that were imported, all of them.

    Args:
        host: Starts them.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._begun: set[object] = set()  # by the entries' keys
        self._turns: dict[Tenant, asyncio.Lock] = {}  # one tenant's slow server is nobody else's matter

    async def before_listing(self, context: CallContext) -> None:
        """Let each server that this caller may use say what it offers, where it never did. Each is tried once."""
        if not any(map(self._is_new, self._host.exposing.catalogue(context.tenant).entries())):
            return
        # Whoever comes meanwhile waits for the same ones.
        async with self._turns.setdefault(context.tenant, asyncio.Lock()):
            new = [one for one in self._host.exposing.catalogue(context.tenant).entries() if self._is_new(one)]
            offered = await self._host.exposing.offered(context, [Target(entry, READ) for entry in new])
            entries = [one.target.entry for one in offered]
            self._begun |= {entry.key for entry in entries}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST):
                    await asyncio.gather(*(self._meet(entry) for entry in entries))

    def _is_new(self, entry: Entry) -> bool:
        return entry.lists_itself and not entry.met and entry.key not in self._begun

    async def _meet(self, entry: Entry) -> None:
        with contextlib.suppress(PaddockError):  # it does not run, which whoever looks after it is told
            await self._host.tools(entry.key.plugin, tenant=entry.key.tenant, meet=True)
