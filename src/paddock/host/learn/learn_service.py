"""Tries a plugin in learning cages, and reports whether it answers and which grants it needs.

    first pass      its cage as granted, observed
    further passes  what it missed is stood in for, empty and read-only, so that it goes on to its next need
    checks          with grants that a person has just given: which of them it answers without

Nothing is stored, and nothing is allowed that a person has not granted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

import anyio

from paddock.cage.errors import CageUnavailable
from paddock.cage.learn.proposal import GrantProposal, Learned
from paddock.cage.learn.propose import LearningContext, propose_grants
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.named_places import find_named_places
from paddock.cage.plan.programs import PROGRAM_PATH
from paddock.cage.spec import CageSpec, Learning
from paddock.core.action import ActionJson
from paddock.core.errors import Busy, Conflict, PaddockError, PluginError
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_management import PluginTried
from paddock.core.ids import DEFAULT_TENANT, Digest, PrincipalId, Tenant
from paddock.host.learn.command_places import propose_program_places
from paddock.host.learn.staged_preparer import StagedLaunchPreparer, staged_preparer
from paddock.host.learn.tool_needs import propose_hosts_of_tools, was_reached_for
from paddock.host.learn.trial_pass import PassOutcome, TrialRunner
from paddock.host.plugins.launch.preparer import LaunchPreparer, PreparedLaunch
from paddock.manifest.capability import Capability, merge_capabilities
from paddock.manifest.network import NetworkAccess
from paddock.plugins.install.server_trial import ServerTrial, TrialSubject
from paddock.plugins.manage.enable import GrantState, find_grant_state
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import granted_capabilities
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.diagnosis import GrantAdvice

MAX_PASSES = 4
MAX_CHECKS = 8  # grants that are taken away again, one by one
TRIAL_TIMEOUT_S = 180.0
_ADVICE_BEFORE_INSTALL = GrantAdvice("install it with --capability")


class GrantProposalJson(TypedDict):
    """A grant that would have let the plugin do what it tried."""

    capability: str
    reason: Annotated[str, "Why it is proposed."]
    named: Annotated[bool, "Whether the plugin's settings name what it grants."]
    selected: Annotated[bool, "Whether it is ticked before a person has looked at it."]
    warning: Annotated[str, "Why it is dangerous; empty if it is not."]
    writable: Annotated[str | None, "The same place for writing, which a person may choose instead."]


class ObstacleJson(TypedDict):
    """Something that the plugin tried and that no grant allows."""

    message: str
    hint: str


class TrialFailureJson(TypedDict):
    """Why the plugin did not answer."""

    code: str
    message: str
    hint: str
    action: ActionJson | None


class PluginTrialJson(TypedDict):
    """What came of trying a plugin."""

    name: str
    version: str
    answers: Annotated[bool, "Whether it starts and says what it offers, with what is granted."]
    tools: Annotated[int | None, "How many tools it offers; null if it does not answer."]
    passes: Annotated[int, "How often it was started."]
    failure: Annotated[TrialFailureJson | None, "Why it does not answer."]
    granted: Annotated[list[str], "What it was tried with."]
    proposals: list[GrantProposalJson]
    obstacles: list[ObstacleJson]
    unneeded: Annotated[list[str], "Of the grants for this trial: those it answers without."]
    grantable: Annotated[bool, "Whether grants can be added to it as it is installed."]


@dataclass(frozen=True, slots=True)
class _Subject:
    """The plugin that is tried."""

    state: GrantState
    deployment: Deployment

    @property
    def grantable(self) -> bool:
        return self.state.row.source.source.without_manifest


@dataclass(frozen=True, slots=True)
class _TrialResult:
    """What came of a trial.

    Attributes:
        learned: The proposals.
        passes: How often it was started to learn.
        outcome: The pass in which it answered as granted; None if it did not.
        failure: Why it did not.
        definitions: What it listed in any pass.
        unneeded: The grants that it answers without.
    """

    learned: Learned
    passes: int
    outcome: PassOutcome | None = None
    failure: PaddockError | None = None
    definitions: tuple[Definition, ...] | None = None
    unneeded: tuple[Capability, ...] = ()


class LearnService:
    """Tries plugins. One trial at a time: each starts several processes.

    Args:
        store: The plugin store.
        preparer: Prepares the starts.
        runner: Runs each pass.
        publish_for: The event sink of a tenant.
    """

    def __init__(
        self,
        store: StoreThread,
        preparer: LaunchPreparer,
        runner: TrialRunner,
        publish_for: Callable[[Tenant], EventSink],
    ) -> None:
        self._store = store
        self._preparer = preparer
        self._runner = runner
        self._publish_for = publish_for
        self._lock = asyncio.Lock()

    async def try_plugin(
        self, name: str, grants: Sequence[Capability] = (), *, by: PrincipalId, tenant: Tenant = DEFAULT_TENANT
    ) -> PluginTrialJson:
        """Try a plugin with what it is granted, and with the grants of a person for this trial.

        Raises:
            NotFound: it is not installed.
            Busy: another trial is under way.
            Conflict: it has no cage: it runs elsewhere.
            PaddockError: it must not run, e.g. its configuration is incomplete.
        """
        if self._lock.locked():
            raise Busy("another plugin is being tried", code="trial.busy", hint="wait for it to end, and try again")
        async with self._lock:
            subject = await self._store.run(lambda store: _find_subject(store, name, grants), tenant)
            result = await self._learn(self._preparer, subject.deployment, grants)
            await self._record(subject.deployment, grants, answered=result.outcome is not None, by=by)
            return _report(subject, result)

    async def try_server(self, subject: TrialSubject, by: PrincipalId) -> ServerTrial:
        """Try a server that is not installed; see `TryServer`.

        Raises:
            PaddockError: no cage can be built.
        """
        key = InstanceKey(DEFAULT_TENANT, subject.manifest.name, subject.digest)
        deployment = Deployment(key, subject.manifest, subject.granted)
        async with self._lock:
            preparer = staged_preparer(self._preparer, subject.root, subject.environment)
            result = await self._learn(preparer, deployment, ())
            await self._record(deployment, (), answered=result.outcome is not None, by=by)
        learned = result.learned
        return ServerTrial(
            subject.granted,
            result.definitions,
            tuple(learned.proposals),
            tuple(learned.obstacles),
            result.failure,
        )

    async def _record(
        self, deployment: Deployment, grants: Sequence[Capability], *, answered: bool, by: PrincipalId
    ) -> None:
        event = PluginTried(
            name=deployment.name,
            version=deployment.manifest.version,
            capabilities=tuple(str(one) for one in grants),
            digest=deployment.key.digest,
            answered=answered,
        )
        tenant = deployment.key.tenant
        await self._store.run(lambda store: store.database.write(lambda tx: store.publish(tx, event)), tenant, by=by)

    async def _learn(
        self, preparer: LaunchPreparer, deployment: Deployment, grants: Sequence[Capability]
    ) -> _TrialResult:
        try:
            with anyio.fail_after(TRIAL_TIMEOUT_S):
                return await self._learn_and_check(preparer, deployment, grants)
        except TimeoutError:
            message = f"{deployment.name} was tried for {TRIAL_TIMEOUT_S:g} s without a result"
            raise PluginError(message, code="trial.timeout", hint="its log may say what it waits for") from None

    async def _learn_and_check(
        self, preparer: LaunchPreparer, deployment: Deployment, grants: Sequence[Capability]
    ) -> _TrialResult:
        learned = Learned(deployment.capabilities)
        try:
            prepared = await preparer.prepare(deployment, Learning())
        except CageUnavailable as error:
            await preparer.filesystem_probe.run(
                deployment.key,
                lambda filesystem: propose_program_places(deployment.manifest, PROGRAM_PATH, filesystem, learned),
            )
            return _TrialResult(learned, passes=0, failure=error)
        cage = prepared.start_spec.target
        if not isinstance(cage, CageSpec):
            raise Conflict(f"{deployment.name} runs elsewhere, and not in a cage", code="trial.no_cage")
        outcomes = await self._learn_by_passes(preparer, deployment, prepared, cage, learned)
        first, passes = outcomes[0], len(outcomes)
        definitions = next((one.definitions for one in outcomes if one.definitions is not None), None)
        if not first.answered:
            return _TrialResult(learned, passes, failure=first.failure, definitions=definitions)
        try:
            await preparer.prepare(deployment)
        except CageUnavailable as error:  # its cage is refused outside a trial, e.g. because files would be lost
            return _TrialResult(learned, passes, failure=error, definitions=definitions)
        unneeded = await self._find_unneeded(preparer, deployment, grants)
        return _TrialResult(learned, passes, first, definitions=definitions, unneeded=tuple(unneeded))

    async def _learn_by_passes(
        self,
        preparer: LaunchPreparer,
        deployment: Deployment,
        prepared: PreparedLaunch,
        cage: CageSpec,
        learned: Learned,
    ) -> list[PassOutcome]:
        """Run passes until one shows nothing new. The cage of the first is as granted."""
        outcomes: list[PassOutcome] = []
        learning = Learning()
        for number in range(MAX_PASSES):
            spec = replace(cage, cage_id=f"{cage.cage_id}-{number}", learning=learning)
            outcome = await self._run_pass(preparer, deployment, spec, prepared)
            outcomes.append(outcome)
            if number == 0:
                learned.note_answer(answered=outcome.answered)
            await self._propose(outcome, deployment, prepared, learned)
            stand_ins = tuple(learned.stand_ins())
            if outcome.seen.flooded:
                learned.object("it tried more than is observed, and was ended", "ask its author what it looks for")
            if outcome.seen.flooded or stand_ins == learning.stand_ins:
                break
            learning = replace(learning, stand_ins=stand_ins)
        return outcomes

    async def _propose(
        self, outcome: PassOutcome, deployment: Deployment, prepared: PreparedLaunch, learned: Learned
    ) -> None:
        def propose(filesystem: HostFilesystem) -> None:
            context = LearningContext(
                cage=outcome.cage,
                named=find_named_places(prepared.manifest, prepared.start_spec.config),
                filesystem=filesystem,
                package=prepared.root,
                own_folder=str(self._preparer.own_folder(deployment.key.tenant, deployment.name)),
                hidden=self._preparer.hidden_paths,
                program_path=PROGRAM_PATH,
            )
            propose_grants(outcome.seen, context, learned)
            propose_hosts_of_tools(outcome.definitions or (), learned)

        await self._preparer.filesystem_probe.run(deployment.key, propose)

    async def _find_unneeded(
        self, preparer: LaunchPreparer, deployment: Deployment, grants: Sequence[Capability]
    ) -> list[Capability]:
        """Take each new grant away that its settings do not name; it is needed if the plugin then does not answer."""
        kept = list(deployment.capabilities)
        unneeded: list[Capability] = []
        for capability in [one for one in grants if one in kept][:MAX_CHECKS]:
            without = [one for one in kept if one != capability]
            tried = replace(deployment, capabilities=tuple(without))
            learning = Learning() if isinstance(capability, NetworkAccess) else None
            try:
                prepared = await preparer.prepare(tried, learning)
            except CageUnavailable:
                continue  # its command needs it
            cage = prepared.start_spec.target
            assert isinstance(cage, CageSpec)
            if find_named_places(prepared.manifest, prepared.start_spec.config).names(capability):
                continue
            outcome = await self._run_pass(preparer, tried, cage, prepared)
            # A host that it does not reach for at its start may be what its calls need.
            judged = not isinstance(capability, NetworkAccess) or was_reached_for(capability, outcome.seen)
            if outcome.answered and judged:
                kept = without
                unneeded.append(capability)
        return unneeded

    async def _run_pass(
        self, preparer: LaunchPreparer, deployment: Deployment, cage: CageSpec, prepared: PreparedLaunch
    ) -> PassOutcome:
        publish = self._publish_for(deployment.key.tenant)
        # A plugin that is not installed cannot be upgraded.
        advice = _ADVICE_BEFORE_INSTALL if isinstance(preparer, StagedLaunchPreparer) else None
        return await self._runner.run(deployment, cage, prepared.start_spec.config, publish, advice)


def _find_subject(store: PluginStore, name: str, grants: Sequence[Capability]) -> _Subject:
    state = store.database.read(lambda tx: find_grant_state(tx, store, name))
    manifest = manifest_of(state.row)
    granted = merge_capabilities(granted_capabilities(state.grant), grants)
    key = InstanceKey(store.tenant, manifest.name, Digest(state.row.digest))
    return _Subject(state, Deployment(key, manifest, granted))


def _report(subject: _Subject, result: _TrialResult) -> PluginTrialJson:
    manifest, learned, failure = subject.deployment.manifest, result.learned, result.failure
    return {
        "name": manifest.name,
        "version": manifest.version,
        "answers": result.outcome is not None,
        "tools": result.outcome.tools if result.outcome is not None else None,
        "passes": result.passes,
        "failure": _failure_to_json(failure) if failure is not None else None,
        "granted": [str(one) for one in subject.deployment.capabilities],
        "proposals": [_proposal_to_json(one) for one in learned.proposals],
        "obstacles": [{"message": one.message, "hint": one.hint} for one in learned.obstacles],
        "unneeded": [str(one) for one in result.unneeded],
        "grantable": subject.grantable,
    }


def _failure_to_json(error: PaddockError) -> TrialFailureJson:
    action = error.action.to_json() if error.action else None
    return {"code": error.error_code, "message": error.message, "hint": error.hint, "action": action}


def _proposal_to_json(proposal: GrantProposal) -> GrantProposalJson:
    return {
        "capability": str(proposal.capability),
        "reason": proposal.reason,
        "named": proposal.named,
        "selected": proposal.selected,
        "warning": proposal.warning,
        "writable": str(proposal.writable) if proposal.writable else None,
    }
