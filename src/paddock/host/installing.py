"""Installing and upgrading plugins while the host runs: fetched aside, shown to a person, and done once they said yes.

Plugins are installed for all tenants, so this is for whoever operates the host. An installation works on a thread with
a store of its own, so that a slow registry holds up nobody. There are only so many, each waits only so long for a
person, and whatever they staged goes with them; what a killed host leaves is swept when the next one opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, HostError, NotFound, PaddockError, let_go_of_frames
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, new_id
from paddock.host.installation import Consent, GaveUp, Installation, Outcome, Stage, Stopped
from paddock.plugins.enabling import missing_configuration
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.preparing import prepare
from paddock.plugins.proposal import Change, Proposal, carry_out, proposed, require_name
from paddock.plugins.removal import mend_entries
from paddock.plugins.staging import sweep_staging
from paddock.plugins.store_thread import StoreThread, open_store_thread
from paddock.plugins.wanted import Wanted, find

_log = logging.getLogger("paddock.host")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many installations there may be, and for how long.

    Attributes:
        most: Under way at once.
        kept: Of those that are over, how many can still be looked at.
        patience: Seconds that one waits for a person.
    """

    most: int = 4
    kept: int = 20
    patience: float = 1_800.0


class Installing:
    """All installations of a host.

    Args:
        opening: Opens the plugin store anew.
        staging: Where packages stand meanwhile.
        clock, random: For times and ids.
        bounds: See there.
    """

    def __init__(
        self,
        opening: Callable[[], AbstractContextManager[PluginStore]],
        staging: Path,
        clock: Clock,
        random: Random,
        bounds: Bounds | None = None,
    ) -> None:
        self.staging = staging
        self.bounds = bounds or Bounds()
        self.put_into_effect: Callable[[str], Coroutine[Any, Any, None]] | None = (
            None  # of a plugin that was just changed
        )
        self._opening = opening
        self._clock = clock
        self._random = random
        self._all: dict[str, Installation] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Take installations for as long as the block runs; then those under way end, and leave nothing."""
        await asyncio.to_thread(sweep_staging, self.staging)
        raised: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            except Exception as error:  # whoever catches `NotFound` around the host must get it, and no group of errors
                raised = error
            finally:
                self._tasks = None
                for one in self._all.values():
                    one.stop(GaveUp.CLOSING)
        if raised is not None:
            raise raised

    # --- for whoever installs -----------------------------------------------------------------------------------------

    def require_room(self) -> None:
        """Raise what keeps another one from being begun.

        Raises:
            Busy: there are as many as there may be, or the host is closing.
        """
        if self._tasks is None:
            raise Busy("the host is closing", code="install.too_many")
        if len(self.under_way()) >= self.bounds.most:
            raise Busy(
                f"{self.bounds.most} installations are under way already",
                code="install.too_many",
                hint="finish or cancel one of them first",
            )

    def begin(self, wanted: Wanted, what: str, by: PrincipalId, brought: ExitStack | None = None) -> Installation:
        """Begin to fetch a package. Nothing changes before a person agreed to it.

        Args:
            wanted: The package.
            what: The same in words.
            by: Who wants it.
            brought: Closed when it is over: what was sent along.

        Raises:
            Busy: there are as many as there may be, or the host is closing.
        """
        self.require_room()
        assert self._tasks is not None
        one = Installation(new_id("ins", self._clock, self._random), what, by, wanted.upgrade, self._clock)
        self._all[one.id] = one
        self._tasks.start_soon(self._run, one, wanted, brought or ExitStack())
        self._forget_old_ones()
        return one

    def find(self, wanted: str) -> Installation:
        """One of them.

        Raises:
            NotFound: there is none of that id, or not any more.
        """
        found = self._all.get(wanted)
        if found is None:
            raise NotFound(
                "there is no such installation, or not any more",
                code="install.not_found",
                hint="begin again: nothing was changed by one that nobody agreed to",
            )
        return found

    def under_way(self) -> list[Installation]:
        """Those that are not over, the oldest first."""
        return [one for one in self._all.values() if not one.over]

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _run(self, one: Installation, wanted: Wanted, brought: ExitStack) -> None:
        # Shielded: it ends by being stopped, so that what it staged is removed on the thread that staged it.
        with anyio.CancelScope(shield=True):
            try:
                async with open_store_thread(self._opening) as thread:
                    await self._through(one, wanted, thread)
            except Stopped:
                pass
            except PaddockError as error:
                one.error = error
            except Exception as error:
                _log.error("an installation of %s failed", one.what, exc_info=error)
                one.error = HostError("this failed for a reason that nobody foresaw; the host's log has it")
            finally:
                await asyncio.to_thread(brought.close)
            if one.error is not None:
                let_go_of_frames(one.error)
            over = Stage.DONE if one.outcome is not None else Stage.FAILED if one.error is not None else Stage.GIVEN_UP
            one.moved_to(over)

    async def _through(self, one: Installation, wanted: Wanted, thread: StoreThread) -> None:
        staged = ExitStack()
        try:
            proposal = await thread.run(lambda store: _prepared(store, wanted, one, staged), by=one.by)
            outcome = await thread.run(lambda store: _outcome(store, proposal))
            if proposal.change is not Change.NOTHING:
                until = self._clock.now() + timedelta(seconds=self.bounds.patience)
                consent = await one.asked(proposal, self.bounds.patience, until.isoformat())
                await thread.run(lambda store: _done(store, proposal, consent, one), DEFAULT_TENANT, by=consent.by.id)
        finally:
            await thread.run(lambda _: staged.close())
        one.outcome = outcome
        if proposal.change is not Change.NOTHING and self.put_into_effect is not None:
            with suppress(PaddockError):  # it is done; the host looks by itself every few seconds
                await one.unless_stopped(self.put_into_effect(outcome.plugin))

    def _forget_old_ones(self) -> None:
        over = [one.id for one in self._all.values() if one.over]
        for old in over[: max(0, len(over) - self.bounds.kept)]:
            del self._all[old]


def _prepared(store: PluginStore, wanted: Wanted, one: Installation, staged: ExitStack) -> Proposal:
    """Fetch and check a package; it stays until `staged` is closed."""
    store.sweep()  # what killed commands left, as before every change
    mend_entries(store)
    found = find(store, wanted)
    prepared = staged.enter_context(
        prepare(store, found.source, one.report, found.choices, recorded_as=wanted.recorded_as)
    )
    if found.plugin is not None:
        require_name(prepared, found.plugin.name)
    return proposed(store, prepared, downgrade=wanted.downgrade)


def _done(store: PluginStore, proposal: Proposal, consent: Consent, one: Installation) -> None:
    carry_out(store, proposal, consent.acknowledged, less_trust=consent.less_trust, progress=one.report)


def _outcome(store: PluginStore, proposal: Proposal) -> Outcome:
    """What it will have been once it is done."""
    manifest = proposal.prepared.manifest
    unset = tuple(one.path.partition(".")[2] for one in missing_configuration(store, manifest))
    return Outcome(proposal.change, manifest.name, manifest.version, unset)
