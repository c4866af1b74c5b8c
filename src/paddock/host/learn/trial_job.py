"""Trials that a page follows: their steps, their report, and what was stored of a person's choice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence

from anyio.abc import TaskGroup
from msgspec import Struct, field

from paddock.core.call import Principal
from paddock.core.errors import Busy, HostError, PaddockError, clear_tracebacks
from paddock.core.ids import DEFAULT_TENANT, PluginName, Tenant
from paddock.host.learn.grant_storage import store_grants
from paddock.host.learn.learn_service import LearnService
from paddock.host.learn.trial_report import PluginTrialJson
from paddock.host.plugins.discovery import DefinitionService
from paddock.host.plugins.install import InstallService
from paddock.manifest.capability import Capability
from paddock.plugins.tool_pinning.tool_trust import TrustedWord

MAX_TRIAL_JOBS = 20  # whose results can still be looked at

_log = logging.getLogger("paddock.host")


class TrialChoice(Struct, frozen=True):
    """What a person chose before a trial.

    Attributes:
        grants: Granted for the trial, and for good once the plugin answers with them.
        trusted_marks: The tools whose word is taken that they only read, with the hashes of the definitions shown.
    """

    grants: tuple[Capability, ...] = ()
    trusted_marks: Mapping[str, str] = field(default_factory=dict[str, str])


class TrialJob:
    """One trial. It is changed on the event loop alone.

    Attributes:
        plugin: The name that was asked for.
        choice: What the person chose before it.
        step: What is being done.
        report: What came of it.
        stored: The grants that were stored.
        trusted: The tools that are trusted to only read since.
        error: Why it failed; a plugin that does not answer is in the report instead.
    """

    def __init__(self, plugin: str, choice: TrialChoice) -> None:
        self.plugin = plugin
        self.choice = choice
        self.step = ""
        self.report: PluginTrialJson | None = None
        self.stored: tuple[Capability, ...] = ()
        self.trusted: Sequence[str] = ()
        self.error: PaddockError | None = None
        self.finished = False
        self._change_event = asyncio.Event()

    async def watch(self) -> AsyncGenerator[None, None]:
        """Yield now and after every change, until the trial has finished."""
        while True:
            change_event = self._change_event
            yield
            if self.finished:
                return
            await change_event.wait()

    def set_step(self, step: str) -> None:
        """Note what is being done, and notify watchers."""
        self.step = step
        previous_event, self._change_event = self._change_event, asyncio.Event()
        previous_event.set()

    def finish(self) -> None:
        """Note that it is over, and notify watchers."""
        self.finished = True
        self.set_step("")


class TrialJobs:
    """Runs trials for pages, one at a time, and keeps their results for a while.

    Args:
        learning: Tries the plugins.
        installer: Stores grants.
        definitions: Stores trust in read-only marks.
        tasks: Runs the trials; cancelled when the host closes.
    """

    def __init__(
        self, learning: LearnService, installer: InstallService, definitions: DefinitionService, tasks: TaskGroup
    ) -> None:
        self._learning = learning
        self._installer = installer
        self._definitions = definitions
        self._tasks = tasks
        self._jobs: dict[tuple[Tenant, str], TrialJob] = {}

    def start(self, plugin: PluginName, choice: TrialChoice, by: Principal, tenant: Tenant) -> TrialJob:
        """Start a trial.

        Raises:
            Busy: another one is under way.
        """
        if any(not job.finished for job in self._jobs.values()):
            raise Busy("another plugin is being tried", code="trial.busy", hint="wait for it to end, and try again")
        job = TrialJob(plugin, choice)
        self._jobs.pop((tenant, plugin), None)  # the newest is last
        self._jobs[tenant, plugin] = job
        while len(self._jobs) > MAX_TRIAL_JOBS:
            self._jobs.pop(next(iter(self._jobs)))
        self._tasks.start_soon(self._run, job, by, tenant)
        return job

    def find(self, plugin: PluginName, tenant: Tenant) -> TrialJob | None:
        """Return the last trial of a plugin, if it is remembered."""
        return self._jobs.get((tenant, plugin))

    async def _run(self, job: TrialJob, by: Principal, tenant: Tenant) -> None:
        try:
            await self._try(job, by, tenant)
        except PaddockError as error:
            clear_tracebacks(error)
            job.error = error
        except Exception as error:
            _log.error("a trial of %s failed", job.plugin, exc_info=error)
            job.error = HostError(
                f"the trial of {job.plugin} failed", code="internal", hint="the log of the host says why"
            )
        finally:
            job.finish()

    async def _try(self, job: TrialJob, by: Principal, tenant: Tenant) -> None:
        grants = job.choice.grants
        report = await self._learning.try_plugin(job.plugin, grants, by=by.id, tenant=tenant, on_progress=job.set_step)
        if report["answers"]:
            needed = tuple(one for one in grants if str(one) not in report["unneeded"])
            if needed and tenant == DEFAULT_TENANT:
                job.set_step("storing what you granted")
                await store_grants(self._installer, report["name"], needed, by)
                job.stored = needed
            if marks := job.choice.trusted_marks:
                change = await self._definitions.trust(
                    report["name"], TrustedWord.READS, list(marks), by.id, tenant, shown=marks
                )
                job.trusted = change["tools"]
        job.report = report
