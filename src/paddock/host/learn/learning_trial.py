"""One trial of a plugin in learning cages.

    first pass      its cage as granted, observed
    further passes  what it missed is stood in for, empty and read-only, so that it goes on to its next need
    checks          with grants that a person has just given: which of them it answers without

Nothing is allowed that a person has not granted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from paddock.cage.errors import CageUnavailable
from paddock.cage.learn.proposal import Learned
from paddock.cage.learn.propose import LearningContext, propose_grants
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.named_places import find_named_places
from paddock.cage.plan.programs import PROGRAM_PATH
from paddock.cage.spec import CageSpec, Learning
from paddock.core.errors import Conflict, PaddockError
from paddock.core.events.event import EventSink
from paddock.host.learn.command_places import propose_module_places, propose_program_places
from paddock.host.learn.staged_preparer import StagedLaunchPreparer
from paddock.host.learn.tool_needs import propose_hosts_of_tools, was_reached_for
from paddock.host.learn.trial_call import TrialCall
from paddock.host.learn.trial_pass import PassOutcome, TrialRunner
from paddock.host.plugins.launch.preparer import LaunchPreparer, PreparedLaunch
from paddock.manifest.capability import Capability, covers
from paddock.manifest.network import NetworkAccess
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.runtime.deployment import Deployment
from paddock.runtime.diagnosis import GrantAdvice

MAX_PASSES = 4
MAX_CHECKS = 8  # grants that are taken away again, one by one
_ADVICE_BEFORE_INSTALL = GrantAdvice("install it with the capability")

OnProgress: TypeAlias = Callable[[str], None]


def ignore_progress(step: str) -> None:
    """Ignore the progress of a trial that is not followed."""
    del step


class TrialResult(Struct, frozen=True):
    """What came of a trial.

    Attributes:
        learned: The proposals.
        passes: How often it was started to learn.
        outcome: The pass in which it answered as granted; None if it did not.
        failure: Why it did not.
        definitions: What it listed in any pass.
        unneeded: The grants that it answers without.
        tool: The tool that was to be called; empty if none.
        calls_made: How often it was called.
    """

    learned: Learned
    passes: int
    outcome: PassOutcome | None = None
    failure: PaddockError | None = None
    definitions: tuple[Definition, ...] | None = None
    unneeded: tuple[Capability, ...] = ()
    tool: str = ""
    calls_made: int = 0


class LearningTrial:
    """Runs the passes and checks of one trial.

    Args:
        deployment: The plugin, with the grants that it is tried with.
        grants: Those of them that a person gave for this trial.
        preparer: Prepares the starts.
        runner: Runs each pass.
        publish: Receives what the plugin does wrong.
        call: A call to make, to see what it needs. It is real.
        on_progress: Gets each step as text.
    """

    def __init__(
        self,
        deployment: Deployment,
        grants: Sequence[Capability],
        preparer: LaunchPreparer,
        runner: TrialRunner,
        publish: EventSink,
        call: TrialCall | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        self._deployment = deployment
        self._grants = grants
        self._preparer = preparer
        self._runner = runner
        self._publish = publish
        self._call = call
        self._on_progress = on_progress
        self._calls_made = 0

    async def run(self) -> TrialResult:
        """Try the plugin.

        Raises:
            Conflict: it has no cage: it runs elsewhere.
            CallerError, Invalid: the call cannot be made; see `make_trial_call`.
            PaddockError: it must not run.
        """
        deployment = self._deployment
        learned = Learned(deployment.capabilities, homes=_own_home())
        try:
            prepared = await self._preparer.prepare(deployment, Learning())
        except CageUnavailable as error:
            await self._preparer.filesystem_probe.run(
                deployment.key,
                lambda filesystem: propose_program_places(deployment.manifest, PROGRAM_PATH, filesystem, learned),
            )
            return TrialResult(learned, passes=0, failure=error)
        cage = prepared.start_spec.target
        if not isinstance(cage, CageSpec):
            raise Conflict(f"{deployment.name} runs elsewhere, and not in a cage", code="trial.no_cage")
        outcomes = await self._learn_by_passes(prepared, cage, learned)
        first, passes = outcomes[0], len(outcomes)
        definitions = next((one.definitions for one in outcomes if one.definitions is not None), None)
        if not first.answered:
            return TrialResult(learned, passes, failure=first.failure, definitions=definitions)
        try:
            await self._preparer.prepare(deployment)
        except CageUnavailable as error:  # its cage is refused outside a trial, e.g. because files would be lost
            return TrialResult(learned, passes, failure=error, definitions=definitions)
        unneeded = tuple(await self._find_unneeded(first))
        tool = self._call.tool if self._call else ""
        return TrialResult(learned, passes, first, None, definitions, unneeded, tool, self._calls_made)

    async def _learn_by_passes(self, prepared: PreparedLaunch, cage: CageSpec, learned: Learned) -> list[PassOutcome]:
        """Run passes until one shows nothing new. The cage of the first is as granted."""
        outcomes: list[PassOutcome] = []
        learning = Learning()
        for number in range(MAX_PASSES):
            again = f"starting it again, to see what else it needs ({number})"
            self._on_progress(again if number else "starting it")
            spec = dataclasses.replace(cage, cage_id=f"{cage.cage_id}-{number}", learning=learning)
            outcome = await self._run_pass(self._deployment, spec, prepared, calls=_calls_again(outcomes))
            outcomes.append(outcome)
            if number == 0:
                learned.note_answer(answered=outcome.succeeded)
            await self._propose(outcome, prepared, learned)
            stand_ins = tuple(learned.stand_ins())
            if outcome.seen.flooded:
                learned.object("it tried more than is observed, and was ended", "ask its author what it looks for")
            if outcome.seen.flooded or stand_ins == learning.stand_ins:
                break
            learning = dataclasses.replace(learning, stand_ins=stand_ins)
        return outcomes

    async def _propose(self, outcome: PassOutcome, prepared: PreparedLaunch, learned: Learned) -> None:
        key = self._deployment.key

        def propose(filesystem: HostFilesystem) -> None:
            named = find_named_places(prepared.manifest, prepared.start_spec.config)
            propose_module_places(outcome.missing_modules, named, filesystem, learned)
            context = LearningContext(
                cage=outcome.cage,
                named=named,
                filesystem=filesystem,
                package=prepared.root,
                own_folder=str(self._preparer.own_folder(key.tenant, self._deployment.name)),
                hidden=self._preparer.hidden_paths,
                program_path=PROGRAM_PATH,
            )
            propose_grants(outcome.seen, context, learned)
            propose_hosts_of_tools(outcome.definitions or (), learned)

        await self._preparer.filesystem_probe.run(key, propose)

    async def _find_unneeded(self, first: PassOutcome) -> list[Capability]:
        """Take each new grant away that its settings do not name; it is needed if the plugin then does not answer.

        With a call, it is needed if the call then fails. A call with an effect is not made again to find that out.
        """
        kept = list(self._deployment.capabilities)
        unneeded: list[Capability] = []
        checkable = first.call is None or (first.call.repeatable and first.succeeded)
        for capability in [one for one in self._grants if one in kept][:MAX_CHECKS]:
            without = [one for one in kept if one != capability]
            if any(covers(one, capability) for one in without):
                kept, unneeded = without, [*unneeded, capability]
                continue
            tried = replace(self._deployment, capabilities=tuple(without))
            learning = Learning() if isinstance(capability, NetworkAccess) else None
            try:
                prepared = await self._preparer.prepare(tried, learning)
            except CageUnavailable:
                continue  # its command needs it
            cage = prepared.start_spec.target
            assert isinstance(cage, CageSpec)
            named = find_named_places(prepared.manifest, prepared.start_spec.config).names(capability)
            if named or not checkable:
                continue
            self._on_progress(f"starting it without {capability}, to see whether it needs that")
            outcome = await self._run_pass(tried, cage, prepared, calls=True)
            # A host that it does not reach for at its start may be what its calls need.
            judged = not isinstance(capability, NetworkAccess) or was_reached_for(capability, outcome.seen)
            if outcome.succeeded and judged:
                kept, unneeded = without, [*unneeded, capability]
        return unneeded

    async def _run_pass(
        self, deployment: Deployment, cage: CageSpec, prepared: PreparedLaunch, *, calls: bool
    ) -> PassOutcome:
        # A plugin that is not installed cannot be upgraded.
        advice = _ADVICE_BEFORE_INSTALL if isinstance(self._preparer, StagedLaunchPreparer) else None
        call = replace(self._call, package=Path(prepared.root)) if calls and self._call else None
        outcome = await self._runner.run(deployment, cage, prepared.start_spec.config, self._publish, advice, call)
        self._calls_made += outcome.call is not None
        return outcome


def _own_home() -> frozenset[str]:
    """The home directory of the person who runs this host, wherever it is."""
    try:
        return frozenset((str(Path.home()),))
    except RuntimeError:  # they have none
        return frozenset()


def _calls_again(outcomes: Sequence[PassOutcome]) -> bool:
    """Whether the next pass makes the call: the first does, others if that is harmless and tells more."""
    made = next((one.call for one in outcomes if one.call is not None), None)
    return made is None or (made.repeatable and made.failure is not None)
