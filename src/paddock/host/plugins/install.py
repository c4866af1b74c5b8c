"""Installs and upgrades plugins while the host runs: fetch and stage, wait for a person's consent, then commit.

Plugins are installed for all tenants, so this is for operators of the host. Each job runs on a thread with a store of
its own, so that a slow registry blocks nothing else. The number of jobs and their wait for consent are bounded. A job
removes its staged files when it ends; files left by a killed host are swept when the next one opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, HostError, NotFound, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Digest, PrincipalId, new_id
from paddock.host.plugins.install_job import (
    InstallJob,
    InstallOutcome,
    InstallStage,
    InstallStopReason,
)
from paddock.manifest.permissions import check_grants_requested, requested_capabilities
from paddock.plugins.install.import_servers import resolve_server
from paddock.plugins.install.plan import InstallPlan, PlanAction, apply_plan, check_same_plugin, make_plan
from paddock.plugins.install.regrant import resolve_with_capabilities
from paddock.plugins.install.request import InstallRequest, how_to_grant_more, resolve_request
from paddock.plugins.install.resolution_cache import InstallStopped
from paddock.plugins.install.resolve import ResolvedPackage, resolve_package
from paddock.plugins.manage.remove import clean_up_interrupted
from paddock.plugins.manage.start_requirements import missing_configuration
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import sweep_staging
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread, open_store_thread
from paddock.plugins.tool_pinning.rows import move_trial_listing
from paddock.runtime.deployment import InstanceKey
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.filesystem import system_error

if TYPE_CHECKING:
    from paddock.host.plugins.discovery import RecordTrialListing
    from paddock.plugins.install.server_file import ServerDraft
    from paddock.plugins.install.server_trial import ServerTrial, TryServer

_log = logging.getLogger("paddock.host")


class InstallLimits(Struct, frozen=True):
    """Limits on installation jobs.

    Attributes:
        max_active: Maximum number of active jobs.
        max_finished: Number of finished jobs that can still be looked up.
        consent_timeout_s: Seconds that a job waits for consent.
    """

    max_active: int = 4
    max_finished: int = 20
    consent_timeout_s: float = 1_800.0


class InstallService:
    """Runs the installation jobs of a host.

    Args:
        open_store: Opens the plugin store anew.
        staging: The directory for staged packages.
        apply_version_change: Applies the version change of a plugin that was just installed or upgraded.
        try_server: Tries a server that has no manifest, before a person is asked.
        record_listing: Records what such a server listed, once it is installed.
        clock, random: For timestamps and ids.
        limits: See `InstallLimits`.
        keys: Seal the secrets of imported servers.
        finish_removals: Purges the data of removed plugins before a package is fetched, which may have one's name; None
            in a daemon, which does so all the time.
    """

    def __init__(
        self,
        open_store: Callable[[], AbstractContextManager[PluginStore]],
        staging: Path,
        apply_version_change: Callable[[str], Coroutine[Any, Any, None]],
        try_server: TryServer,
        record_listing: RecordTrialListing,
        clock: Clock,
        random: Random,
        limits: InstallLimits | None = None,
        keys: WrappingKeys | None = None,
        finish_removals: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.staging = staging
        self.limits = limits or InstallLimits()
        self._open_store = open_store
        self._apply_version_change = apply_version_change
        self._try_server = try_server
        self._record_listing = record_listing
        self._clock = clock
        self._random = random
        self._keys = keys
        self._finish_removals = finish_removals
        self._jobs: dict[str, InstallJob] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def accept_jobs(self) -> AsyncGenerator[None, None]:
        """Accept jobs for as long as the block runs; then active ones are stopped and their staged files removed."""
        await asyncio.to_thread(sweep_staging, self.staging)
        raised: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            except Exception as error:  # a caller that catches `NotFound` must get it, not an exception group
                raised = error
            finally:
                self._tasks = None
                for job in self._jobs.values():
                    job.stop(InstallStopReason.CLOSING)
        if raised is not None:
            raise raised

    # --- API ----------------------------------------------------------------------------------------------------------

    def require_capacity(self) -> None:
        """Check that another job may start.

        Raises:
            Busy: too many jobs are active, or the host is closing.
        """
        if self._tasks is None:
            raise Busy("the host is closing", code="install.too_many")
        if len(self.active_jobs()) >= self.limits.max_active:
            raise Busy(
                f"{self.limits.max_active} installations are under way already",
                code="install.too_many",
                hint="finish or cancel one of them first",
            )

    def start(
        self, request: InstallRequest, what: str, by: PrincipalId, resources: ExitStack | None = None
    ) -> InstallJob:
        """Start a job that fetches a package. Nothing changes before a person consents.

        Args:
            request: The package.
            what: The package, as text for people.
            by: The principal that started it.
            resources: Closed when the job ends: holds uploaded files.

        Raises:
            Busy: too many jobs are active, or the host is closing.
        """
        self.require_capacity()
        assert self._tasks is not None
        job = InstallJob(new_id("ins", self._clock, self._random), what, by, request.upgrade, self._clock)
        self._jobs[job.id] = job
        self._tasks.start_soon(self._run, job, request, resources or ExitStack())
        self._prune_finished()
        return job

    def find(self, job_id: str) -> InstallJob:
        """Look up a job by id.

        Raises:
            NotFound: there is no such job, or it was pruned.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFound(
                "there is no such installation, or not any more",
                code="install.not_found",
                hint="begin again; without consent nothing was changed",
            )
        return job

    def active_jobs(self) -> list[InstallJob]:
        """Return the unfinished jobs, oldest first."""
        return [job for job in self._jobs.values() if not job.finished]

    # --- running a job ------------------------------------------------------------------------------------------------

    async def _run(self, job: InstallJob, request: InstallRequest, resources: ExitStack) -> None:
        # Shielded: a job ends by being stopped, so that its staged files are removed on the thread that staged them.
        with anyio.CancelScope(shield=True):
            try:
                async with open_store_thread(self._open_store) as thread:
                    await self._run_steps(job, request, thread)
            except InstallStopped:
                pass
            except PaddockError as error:
                job.fail(error)
            except Exception as error:
                _log.error("an installation of %s failed", job.what, exc_info=error)
                job.fail(_unexpected_error(error))
            finally:
                await asyncio.to_thread(resources.close)
            final_stage = (
                InstallStage.DONE
                if job.outcome is not None
                else InstallStage.FAILED
                if job.error is not None
                else InstallStage.CANCELLED
            )
            job.set_stage(final_stage)

    async def _run_steps(self, job: InstallJob, request: InstallRequest, thread: StoreThread) -> None:
        if self._finish_removals is not None:
            with suppress(PaddockError):  # matters only to a package of that name, whose plan then says so
                await self._finish_removals()
        staged = ExitStack()
        try:
            plan = await self._make_plan(job, request, thread, staged)
            outcome = await thread.run(lambda store: _expected_outcome(store, plan))
            if plan.action is not PlanAction.NOTHING:
                expires_at = self._clock.now() + timedelta(seconds=self.limits.consent_timeout_s)
                by, consent = await job.wait_for_consent(plan, self.limits.consent_timeout_s, expires_at.isoformat())
                await thread.run(
                    lambda store: apply_plan(
                        replace(store, keys=self._keys), plan, consent, progress=job.report_progress
                    ),
                    by=by,
                )
        except BaseException as error:
            failure = error  # `error` is unbound when the block ends
            await thread.run(lambda _: staged.__exit__(type(failure), failure, failure.__traceback__))
            raise
        await thread.run(lambda _: staged.close())
        job.succeed(outcome)
        if plan.action is not PlanAction.NOTHING:
            if request.as_installed:
                await thread.run(lambda store: _keep_trial_listing(store, plan))
            await self._record_trial(plan)
            with suppress(PaddockError, InstallStopped):  # it is committed; the reconciler picks it up within seconds
                await job.run_unless_stopped(self._apply_version_change(outcome.plugin))

    async def _record_trial(self, plan: InstallPlan) -> None:
        """Record what a server listed when it was tried for this installation, as the person was shown it."""
        trial = plan.package.trial
        if trial is None or trial.definitions is None:
            return
        key = InstanceKey(DEFAULT_TENANT, plan.package.manifest.name, Digest(plan.terms.digest))
        with suppress(PaddockError):  # it is installed, and lists that again when it runs
            await self._record_listing(key, tuple(trial.definitions))

    async def _make_plan(
        self, job: InstallJob, request: InstallRequest, thread: StoreThread, staged: ExitStack
    ) -> InstallPlan:
        """Fetch and check a package, and try it if it has no manifest; its files stay until `staged` is closed."""
        prepared = await thread.run(
            lambda store: _prepare_plan(replace(store, keys=self._keys), request, job, staged), by=job.by
        )
        if isinstance(prepared, InstallPlan):
            return prepared
        draft = prepared
        trial = await job.run_unless_stopped(self._try_server(draft.subject, job.by), f"trying {draft.file.name}")
        return await thread.run(lambda store: _plan_server(store, request, draft, trial, staged), by=job.by)

    def _prune_finished(self) -> None:
        finished = [job.id for job in self._jobs.values() if job.finished]
        for job_id in finished[: max(0, len(finished) - self.limits.max_finished)]:
            del self._jobs[job_id]


def _keep_trial_listing(store: PluginStore, plan: InstallPlan) -> None:
    """What a trial listed is of the version with the new grants too: only those differ."""
    installed = plan.package.installed
    if installed is not None:
        plugin, old, new = installed.plugin, installed.digest, plan.terms.digest
        store.database.write(lambda tx: move_trial_listing(tx, store.tenant, plugin, old, new))


def _prepare_plan(
    store: PluginStore, request: InstallRequest, job: InstallJob, staged: ExitStack
) -> InstallPlan | ServerDraft:
    """Fetch and check a package. A server file is only prepared: it is planned once it was tried."""
    clean_up_interrupted(store)
    if request.server is not None:
        package = staged.enter_context(resolve_server(store, request.server, job.report_progress))
        return make_plan(store, package)
    if request.as_installed and request.upgrade is not None:
        package = staged.enter_context(resolve_with_capabilities(store, request.upgrade, request.grants))
        return make_plan(store, package)
    resolved = resolve_request(store, request)
    if resolved.source.kind is SourceKind.SERVER_FILE:
        # Imported lazily, here and below: most packages are no server files.
        from paddock.plugins.environments.metadata import IndexOptions
        from paddock.plugins.install.server_file import open_server_draft

        choices = resolved.choices or IndexOptions()
        typed = request.choices.capabilities if request.choices else ()
        return staged.enter_context(
            open_server_draft(store, resolved.source, choices, typed, job.report_progress, request.recorded_as)
        )
    package = staged.enter_context(
        resolve_package(store, resolved.source, job.report_progress, resolved.choices, recorded_as=request.recorded_as)
    )
    if resolved.plugin is not None:
        check_same_plugin(package, resolved.plugin.name)
    return _plan_package(store, request, package, resolved.source)


def _plan_server(
    store: PluginStore, request: InstallRequest, draft: ServerDraft, trial: ServerTrial, staged: ExitStack
) -> InstallPlan:
    """Plan a server file that was tried; its files stay until `staged` is closed."""
    from paddock.plugins.install.server_file import resolve_server_file

    package = staged.enter_context(resolve_server_file(store, draft, trial))
    return _plan_package(store, request, package, draft.source)


def _plan_package(
    store: PluginStore, request: InstallRequest, package: ResolvedPackage, source: PackageSource
) -> InstallPlan:
    manifest = package.manifest
    check_grants_requested(
        request.grants,
        requested_capabilities(manifest),
        f"{manifest.name} {manifest.version}",
        *how_to_grant_more(source, manifest.name if package.installed is not None else ""),
    )
    return make_plan(store, package, downgrade=request.downgrade)


def _expected_outcome(store: PluginStore, plan: InstallPlan) -> InstallOutcome:
    """Describe the result in advance: afterwards the plan is gone."""
    manifest = plan.package.manifest
    missing = [problem.path.partition(".")[2] for problem in missing_configuration(store, manifest)]
    unset = tuple(name for name in missing if name not in plan.package.values)
    return InstallOutcome(plan.action, manifest.name, manifest.version, plan.terms.digest, unset)


def _unexpected_error(error: Exception) -> PaddockError:
    if isinstance(error, OSError) and error.errno is not None:
        return system_error(error)
    return HostError("something went wrong inside Paddock", code="internal", hint="the host's log says what")
