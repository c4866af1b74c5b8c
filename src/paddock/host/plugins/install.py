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
from paddock.core.errors import Busy, HostError, NotFound, PaddockError, clear_tracebacks
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, new_id
from paddock.host.plugins.install_job import (
    InstallConsent,
    InstallJob,
    InstallOutcome,
    InstallStage,
    InstallStopped,
    InstallStopReason,
)
from paddock.plugins.install.plan import InstallPlan, PlanAction, apply_plan, check_same_plugin, make_plan
from paddock.plugins.install.request import InstallRequest, resolve_request
from paddock.plugins.install.resolve import resolve_package
from paddock.plugins.manage.enable import missing_configuration
from paddock.plugins.manage.remove import reconcile_config_entries
from paddock.plugins.package.stage import sweep_staging
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread, open_store_thread

_log = logging.getLogger("paddock.host")


@dataclass(frozen=True, slots=True)
class InstallLimits:
    """How many installations there may be, and for how long.

    Attributes:
        most: Under way at once.
        kept: Of those that are over, how many can still be looked at.
        patience: Seconds that one waits for a person.
    """

    most: int = 4
    kept: int = 20
    patience: float = 1_800.0


class InstallService:
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
        bounds: InstallLimits | None = None,
    ) -> None:
        self.staging = staging
        self.bounds = bounds or InstallLimits()
        self.apply_version_change: Callable[[str], Coroutine[Any, Any, None]] | None = (
            None  # of a plugin that was just changed
        )
        self._open_store = opening
        self._clock = clock
        self._random = random
        self._jobs: dict[str, InstallJob] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def accept_jobs(self) -> AsyncGenerator[None, None]:
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
                for one in self._jobs.values():
                    one.stop(InstallStopReason.CLOSING)
        if raised is not None:
            raise raised

    # --- for whoever installs -----------------------------------------------------------------------------------------

    def require_capacity(self) -> None:
        """Raise what keeps another one from being begun.

        Raises:
            Busy: there are as many as there may be, or the host is closing.
        """
        if self._tasks is None:
            raise Busy("the host is closing", code="install.too_many")
        if len(self.active_jobs()) >= self.bounds.most:
            raise Busy(
                f"{self.bounds.most} installations are under way already",
                code="install.too_many",
                hint="finish or cancel one of them first",
            )

    def start(self, wanted: InstallRequest, what: str, by: PrincipalId, brought: ExitStack | None = None) -> InstallJob:
        """Begin to fetch a package. Nothing changes before a person agreed to it.

        Args:
            wanted: The package.
            what: The same in words.
            by: Who wants it.
            brought: Closed when it is over: what was sent along.

        Raises:
            Busy: there are as many as there may be, or the host is closing.
        """
        self.require_capacity()
        assert self._tasks is not None
        one = InstallJob(new_id("ins", self._clock, self._random), what, by, wanted.upgrade, self._clock)
        self._jobs[one.id] = one
        self._tasks.start_soon(self._run, one, wanted, brought or ExitStack())
        self._prune_finished()
        return one

    def find(self, wanted: str) -> InstallJob:
        """One of them.

        Raises:
            NotFound: there is none of that id, or not any more.
        """
        found = self._jobs.get(wanted)
        if found is None:
            raise NotFound(
                "there is no such installation, or not any more",
                code="install.not_found",
                hint="begin again: nothing was changed by one that nobody agreed to",
            )
        return found

    def active_jobs(self) -> list[InstallJob]:
        """Those that are not over, the oldest first."""
        return [one for one in self._jobs.values() if not one.finished]

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _run(self, one: InstallJob, wanted: InstallRequest, brought: ExitStack) -> None:
        # Shielded: it ends by being stopped, so that what it staged is removed on the thread that staged it.
        with anyio.CancelScope(shield=True):
            try:
                async with open_store_thread(self._open_store) as thread:
                    await self._run_steps(one, wanted, thread)
            except InstallStopped:
                pass
            except PaddockError as error:
                one.error = error
            except Exception as error:
                _log.error("an installation of %s failed", one.what, exc_info=error)
                one.error = HostError("this failed for a reason that nobody foresaw; the host's log has it")
            finally:
                await asyncio.to_thread(brought.close)
            if one.error is not None:
                clear_tracebacks(one.error)
            over = (
                InstallStage.DONE
                if one.outcome is not None
                else InstallStage.FAILED
                if one.error is not None
                else InstallStage.GIVEN_UP
            )
            one.set_stage(over)

    async def _run_steps(self, one: InstallJob, wanted: InstallRequest, thread: StoreThread) -> None:
        staged = ExitStack()
        try:
            proposal = await thread.run(lambda store: _prepare_plan(store, wanted, one, staged), by=one.by)
            outcome = await thread.run(lambda store: _expected_outcome(store, proposal))
            if proposal.action is not PlanAction.NOTHING:
                until = self._clock.now() + timedelta(seconds=self.bounds.patience)
                consent = await one.wait_for_consent(proposal, self.bounds.patience, until.isoformat())
                await thread.run(
                    lambda store: _apply_plan(store, proposal, consent, one), DEFAULT_TENANT, by=consent.by.id
                )
        finally:
            await thread.run(lambda _: staged.close())
        one.outcome = outcome
        if proposal.action is not PlanAction.NOTHING and self.apply_version_change is not None:
            with suppress(PaddockError):  # it is done; the host looks by itself every few seconds
                await one.run_unless_stopped(self.apply_version_change(outcome.plugin))

    def _prune_finished(self) -> None:
        over = [one.id for one in self._jobs.values() if one.finished]
        for old in over[: max(0, len(over) - self.bounds.kept)]:
            del self._jobs[old]


def _prepare_plan(store: PluginStore, wanted: InstallRequest, one: InstallJob, staged: ExitStack) -> InstallPlan:
    """Fetch and check a package; it stays until `staged` is closed."""
    store.sweep()  # what killed commands left, as before every change
    reconcile_config_entries(store)
    found = resolve_request(store, wanted)
    prepared = staged.enter_context(
        resolve_package(store, found.source, one.report_progress, found.choices, recorded_as=wanted.recorded_as)
    )
    if found.plugin is not None:
        check_same_plugin(prepared, found.plugin.name)
    return make_plan(store, prepared, downgrade=wanted.downgrade)


def _apply_plan(store: PluginStore, proposal: InstallPlan, consent: InstallConsent, one: InstallJob) -> None:
    apply_plan(store, proposal, consent.acknowledged, less_trust=consent.less_trust, progress=one.report_progress)


def _expected_outcome(store: PluginStore, proposal: InstallPlan) -> InstallOutcome:
    """What it will have been once it is done."""
    manifest = proposal.package.manifest
    unset = tuple(one.path.partition(".")[2] for one in missing_configuration(store, manifest))
    return InstallOutcome(proposal.action, manifest.name, manifest.version, unset)
