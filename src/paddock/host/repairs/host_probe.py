"""Probes the machine periodically in the background: disks and kernels may hang, and waits are bounded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from anyio.abc import TaskGroup

from paddock.cage.cgroups.discovery import FALLBACK_MECHANISMS
from paddock.cage.errors import CageUnavailable
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.host.repairs.facts import MachineFacts

PROBE_TTL_S = 60.0
PROBE_WAIT_S = 3.0  # how long a request waits for the first probe


class HostProbe:
    """Probes the machine, off the event loop, and caches the facts.

    Args:
        data: The data directory.
        limits: Returns the mechanism that enforces each resource limit; raises if no cage can be built.
        tasks: Runs the probes.
        clock: Determines the age of cached facts.
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
        """Return the latest facts; None if there are none yet and the first probe takes too long.

        Args:
            anew: Wait, bounded, for a new probe.
        """
        fresh = self._last_facts is not None and self._clock.monotonic() - self._last_facts[0] < PROBE_TTL_S
        if not fresh or anew:
            first = self._last_facts is None and self._probing is None  # later requests do not wait for a hanging probe
            if self._probing is None:
                self._probing = asyncio.Event()
                self._tasks.start_soon(self._probe, self._probing)
            if first or anew:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_WAIT_S):
                        await self._probing.wait()
        return None if self._last_facts is None else self._last_facts[1]

    async def _probe(self, finished: asyncio.Event) -> None:
        try:
            self._last_facts = (self._clock.monotonic(), await self._read_facts())
        finally:
            self._probing = None
            finished.set()

    async def _read_facts(self) -> MachineFacts:
        free = await asyncio.to_thread(_free_bytes, self._data)
        limits, no_cage, hint = dict[str, str](), "", ""
        try:
            limits = await self._limits()
        except CageUnavailable as error:
            no_cage, hint = error.message, error.hint
        except (PaddockError, OSError):
            pass  # busy or shutting down: nothing is known, and nothing is reported
        return MachineFacts(
            free,
            str(self._data),
            limits,
            tuple(name for name, mechanism in limits.items() if mechanism == FALLBACK_MECHANISMS.get(name)),
            no_cage,
            hint,
        )


def _free_bytes(path: Path) -> int | None:
    try:
        stats = os.statvfs(path)
    except OSError:
        return None
    return stats.f_bavail * stats.f_frsize
