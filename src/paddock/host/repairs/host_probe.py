"""What the machine gives, looked at now and then: disks and kernels answer when they like, and nobody waits long."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from anyio.abc import TaskGroup

from paddock.cage.cgroups.discovery import FALLBACK_MECHANISMS
from paddock.cage.launcher import CageUnavailable
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.host.repairs.facts import MachineFacts

PROBE_TTL_S = 60.0  # seconds
PROBE_WAIT_S = 3.0  # seconds that somebody waits for the first look


class HostProbe:
    """Looks at the machine, off the event loop, and remembers what it saw for a while.

    Args:
        data: Where the data is.
        limits: What holds each resource of a cage; raises where no cage can be built.
        tasks: Where looks are taken.
        clock: How old what is remembered is.
    """

    def __init__(
        self, data: Path, limits: Callable[[], Awaitable[dict[str, str]]], tasks: TaskGroup, clock: Clock
    ) -> None:
        self._data = data
        self._limits = limits
        self._tasks = tasks
        self._clock = clock
        self._last_facts: tuple[float, MachineFacts] | None = None
        self._probing: asyncio.Event | None = None

    async def latest(self, *, anew: bool = False) -> MachineFacts | None:
        """What was seen last; None where nothing was yet, and the look takes longer than anybody waits.

        Args:
            anew: Wait for a new look, for a while.
        """
        fresh = self._last_facts is not None and self._clock.monotonic() - self._last_facts[0] < PROBE_TTL_S
        if not fresh or anew:
            first = self._last_facts is None and self._probing is None  # whoever comes while it hangs need not wait too
            if self._probing is None:
                self._probing = asyncio.Event()
                self._tasks.start_soon(self._probe, self._probing)
            if first or anew:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_WAIT_S):
                        await self._probing.wait()
        return None if self._last_facts is None else self._last_facts[1]

    async def _probe(self, over: asyncio.Event) -> None:
        try:
            self._last_facts = (self._clock.monotonic(), await self._read_facts())
        finally:
            self._probing = None
            over.set()

    async def _read_facts(self) -> MachineFacts:
        free = await asyncio.to_thread(_free_bytes, self._data)
        limits, no_cage, hint = dict[str, str](), "", ""
        try:
            limits = await self._limits()
        except CageUnavailable as error:
            no_cage, hint = error.message, error.hint
        except (PaddockError, OSError):
            pass  # busy, or on its way down: nothing is known, and nothing is claimed
        return MachineFacts(
            free,
            str(self._data),
            limits,
            tuple(name for name, how in limits.items() if how == FALLBACK_MECHANISMS.get(name)),
            no_cage,
            hint,
        )


def _free_bytes(place: Path) -> int | None:
    try:
        space = os.statvfs(place)
    except OSError:
        return None
    return space.f_bavail * space.f_frsize
