"""Tries plugins in learning cages, and reports whether they answer and which grants they need. Nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import anyio
from msgspec import Struct

from paddock.core.errors import Busy, Conflict, NotFound, PaddockError, PluginError
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_management import PluginTried
from paddock.core.ids import DEFAULT_TENANT, Digest, PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.host.learn.learning_trial import LearningTrial, OnProgress, TrialResult, ignore_progress
from paddock.host.learn.staged_preparer import staged_preparer
from paddock.host.learn.trial_call import TrialCall
from paddock.host.learn.trial_pass import TrialRunner
from paddock.host.learn.trial_report import PluginTrialJson, trial_to_json
from paddock.host.plugins.discovery import RecordTrialListing
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.manifest.capability import Capability, merge_capabilities
from paddock.plugins.install.server_trial import ServerTrial, TrialSubject
from paddock.plugins.manage.enable import GrantState, find_grant_state
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import granted_capabilities
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.tool_trust import ToolTrustRow, trust_of
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.store.database import Transaction

TRIAL_TIMEOUT_S = 180.0


class _Subject(Struct, frozen=True):
    """The installed plugin that is tried, and what people took its word for."""

    state: GrantState
    deployment: Deployment
    trust: tuple[ToolTrustRow, ...]

    @property
    def grantable(self) -> bool:
        return self.state.row.source.source.without_manifest


class _RunningTrial(Struct, frozen=True):
    """The trial under way: the names that its plugin has, for whom it is tried, and what cancels it."""

    names: frozenset[str]
    tenant: Tenant
    scope: anyio.CancelScope


class LearnService:
    """Tries plugins. One trial at a time: each starts several processes.

    Args:
        store: The plugin store.
        preparer: Prepares the starts.
        runner: Runs each pass.
        publish_for: The event sink of a tenant.
        record_listing: Records what an installed plugin lists once it answers with what it is granted.
    """

    def __init__(
        self,
        store: StoreThread,
        preparer: LaunchPreparer,
        runner: TrialRunner,
        publish_for: Callable[[Tenant], EventSink],
        record_listing: RecordTrialListing,
    ) -> None:
        self._store = store
        self._preparer = preparer
        self._runner = runner
        self._publish_for = publish_for
        self._record_listing = record_listing
        self._lock = asyncio.Lock()
        self._running: _RunningTrial | None = None

    async def try_plugin(
        self,
        name: str,
        grants: Sequence[Capability] = (),
        *,
        by: PrincipalId,
        tenant: Tenant = DEFAULT_TENANT,
        call: TrialCall | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> PluginTrialJson:
        """Try a plugin with what it is granted, and with the grants of a person for this trial.

        Args:
            name: Its name or an alias.
            grants: The grants for this trial only.
            by: The person who tries it.
            tenant: Whose grants and configuration it is tried with.
            call: A call to make, to see what it needs. It is real.
            on_progress: Gets each step as text.

        Raises:
            NotFound: it is not installed.
            Busy: another trial is under way.
            Conflict: it has no cage, because it runs elsewhere; or the trial was cancelled.
            CallerError, Invalid: the call cannot be made; see `make_trial_call`.
            PaddockError: it must not run, e.g. its configuration is incomplete.
        """
        if self._lock.locked():
            raise Busy("another plugin is being tried", code="trial.busy", hint="wait for it to end, and try again")
        async with self._lock:
            subject = await self._store.run(lambda store: _find_subject(store, name, grants), tenant)
            deployment, publish = subject.deployment, self._publish_for(tenant)
            trial = LearningTrial(deployment, grants, self._preparer, self._runner, publish, call, on_progress)
            try:
                result = await self._run_cancellable(trial, deployment, name)
            except PaddockError as error:
                await self._record_end(deployment, grants, by, error.error_code, call)
                raise
            except asyncio.CancelledError:
                with anyio.CancelScope(shield=True):
                    await self._record_end(deployment, grants, by, "trial.cancelled", call)
                raise
            await self._record(deployment, grants, result, by)
            if result.outcome is not None and result.outcome.definitions is not None:
                await self._record_listing(deployment.key, result.outcome.definitions)
            return trial_to_json(deployment, result, subject.trust, grantable=subject.grantable)

    def cancel(self, name: str, tenant: Tenant) -> None:
        """Cancel the trial of a plugin. Its processes are ended, and nothing is stored.

        Args:
            name: The plugin's name, or the alias that it is tried by.
            tenant: For whom it is tried.

        Raises:
            NotFound: it is not being tried.
        """
        running = self._running
        if running is None or name not in running.names or tenant != running.tenant:
            raise NotFound(f"{printable(name)} is not being tried", code="trial.not_running")
        running.scope.cancel()

    async def _run_cancellable(self, trial: LearningTrial, deployment: Deployment, alias: str) -> TrialResult:
        plugin = deployment.name
        with anyio.CancelScope() as scope:
            self._running = _RunningTrial(frozenset((plugin, alias)), deployment.key.tenant, scope)
            try:
                return await _run_in_time(trial, plugin)
            finally:
                self._running = None
        raise Conflict(f"the trial of {plugin} was cancelled", code="trial.cancelled", hint="nothing was stored")

    async def try_server(self, subject: TrialSubject, by: PrincipalId) -> ServerTrial:
        """Try a server that is not installed; see `TryServer`.

        Raises:
            PaddockError: no cage can be built.
        """
        key = InstanceKey(DEFAULT_TENANT, subject.manifest.name, subject.digest)
        deployment = Deployment(key, subject.manifest, subject.granted)
        async with self._lock:
            preparer = staged_preparer(self._preparer, subject.root, subject.environment)
            trial = LearningTrial(deployment, (), preparer, self._runner, self._publish_for(DEFAULT_TENANT))
            result = await _run_in_time(trial, deployment.name)
            await self._record(deployment, (), result, by)
        learned = result.learned
        return ServerTrial(
            subject.granted,
            result.definitions,
            tuple(learned.proposals),
            tuple(learned.obstacles),
            result.failure,
        )

    async def _record_end(
        self,
        deployment: Deployment,
        grants: Sequence[Capability],
        by: PrincipalId,
        error_code: str,
        call: TrialCall | None,
    ) -> None:
        """Record a trial that came to no result, e.g. because its call was refused."""
        event = PluginTried(
            name=deployment.name,
            version=deployment.manifest.version,
            capabilities=tuple(str(one) for one in grants),
            digest=deployment.key.digest,
            answered=False,
            tool=call.tool if call else None,
            error=error_code,
        )
        await self._publish(event, deployment.key.tenant, by)

    async def _publish(self, event: PluginTried, tenant: Tenant, by: PrincipalId) -> None:
        await self._store.run(lambda store: store.database.write(lambda tx: store.publish(tx, event)), tenant, by=by)

    async def _record(
        self, deployment: Deployment, grants: Sequence[Capability], result: TrialResult, by: PrincipalId
    ) -> None:
        event = PluginTried(
            name=deployment.name,
            version=deployment.manifest.version,
            capabilities=tuple(str(one) for one in grants),
            digest=deployment.key.digest,
            answered=result.outcome is not None,
            tool=result.tool if result.calls_made else None,
        )
        await self._publish(event, deployment.key.tenant, by)


async def _run_in_time(trial: LearningTrial, name: str) -> TrialResult:
    try:
        with anyio.fail_after(TRIAL_TIMEOUT_S):
            return await trial.run()
    except TimeoutError:
        message = f"{name} was tried for {TRIAL_TIMEOUT_S:g} s without a result"
        raise PluginError(message, code="trial.timeout", hint="its log may say what it waits for") from None


def _find_subject(store: PluginStore, name: str, grants: Sequence[Capability]) -> _Subject:
    def unit(tx: Transaction) -> tuple[GrantState, tuple[ToolTrustRow, ...]]:
        state = find_grant_state(tx, store, name)
        return state, trust_of(tx, store.tenant, state.row.plugin)

    state, trust = store.database.read(unit)
    manifest = manifest_of(state.row)
    granted = merge_capabilities(granted_capabilities(state.grant), grants)
    key = InstanceKey(store.tenant, manifest.name, Digest(state.row.digest))
    return _Subject(state, Deployment(key, manifest, granted), trust)
