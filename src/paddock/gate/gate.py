"""The one door: every call, whoever makes it, goes through `Gate.call`.

    scope → meet → validate input → decide → claim or replay → secrets → (approve) → start → run
          → check output, and what agents propose under which keys → record

Whatever becomes of it is recorded, a denial too. An effect is on record before it starts; a call that only reads is
recorded once, afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paddock.core.call import CallContext
from paddock.core.clock import Clock, Random
from paddock.core.errors import CallerError, Conflict, Invalid, NotFound, PaddockError
from paddock.core.ids import CallId, Tenant, new_id
from paddock.gate.beside import UNWATCHED, Observer, Records, Secrets, Watch
from paddock.gate.catalogue import Catalogue, Target
from paddock.gate.course import Course
from paddock.gate.deciding import Decides, refusal, snapshot
from paddock.gate.finishing import finished
from paddock.gate.in_progress import Following
from paddock.gate.limits import Limits
from paddock.gate.once import Replayed, TakenMeanwhile
from paddock.gate.promises import Promises, answers_as_operator
from paddock.gate.starting import DecidedOtherwise, Start
from paddock.gate.turns import Turns
from paddock.manifest.model import Kind
from paddock.plugins.runtimes.envelopes import InProgress
from paddock.plugins.runtimes.scopes import require_scopes
from paddock.plugins.supervision.flight import OnEvent
from paddock.plugins.supervision.questions import Ask
from paddock.plugins.supervision.supervisor import Supervisor
from paddock.policy.decision import Allow, Deny
from paddock.secrets.declared import operation_of


@dataclass(slots=True)
class Gate:
    """Built once by the host, which replaces the catalogues, one for each tenant, when plugins come and go."""

    supervisor: Supervisor
    records: Records
    decides: Decides
    start: Start
    limits: Limits
    secrets: Secrets
    clock: Clock
    random: Random
    catalogues: Mapping[Tenant, Catalogue] = field(default_factory=dict[Tenant, Catalogue])
    observers: list[Observer] = field(default_factory=list[Observer])
    turns: Turns = field(default_factory=Turns)
    promises: Promises = field(default_factory=Promises)
    answered: list[Course] = field(default_factory=list[Course])  # calls that are put down in a moment
    following: Following | None = None  # None: what is still in progress counts as unanswered

    async def call(
        self,
        target: Target,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        call: CallId | None = None,
        approval: str | None = None,
        on_event: OnEvent | None = None,
        ask: Ask | None = None,
        watch: Watch = UNWATCHED,
    ) -> Any:
        """Run one call and give its result.

        Args:
            target: What is called.
            payload: With what.
            context: By whom, and where.
            call: Its id, where it has one already.
            approval: The request that was approved for it, where it was held before.
            on_event: Hears what the plugin tells meanwhile.
            ask: Puts the plugin's questions to whoever makes the call; they are declined without it.
            watch: Hears what else becomes of it.

        Raises:
            Denied: the caller lacks a scope, the rules forbid it, or what the agent that was called proposes; or the
                plugin describes the callable otherwise than somebody accepted.
            NeedsApproval: a person is asked first.
            Busy: too much is under way, or was asked for in too short a time.
            Invalid: the payload does not fit; carries every mistake.
            Failed: it does not fit either, and the plugin does not run.
            CallerError: `missing_secrets`, with the names of all that its operation needs and are not set.
            OutputInvalid: the answer does not fit what the plugin promised.
            BadHint: the agent that was called hints at a key that cannot be filled in.
            PaddockError: see `Supervisor.call`.
        """
        if self.records.crowded(context.tenant) or self.records.failing is not None:
            try:
                await self._recording(context.tenant)
            except PaddockError as error:
                if approval is not None:
                    await self.start.void(context.tenant, approval, error)
                raise
        if (turn := self.turns.take(context.tenant)) is not None:
            await turn
        course = Course(call or self._new_id(), target, payload, context, self.clock.monotonic())
        course.resumed = approval is not None
        try:
            self._in_scope(target, context)
            if approval is None:  # one that waited was counted when it was made
                self.limits.take_own(context.tenant, context.principal.id)
            if target.lists_itself:
                course.target = target = await self._met(course)
            self.require_valid(target, payload)
            course.decision = self.decides.at_once(target, context) or await self.decides.about(target, context)
            if approval is None and not isinstance(course.decision, Deny):
                self.limits.take_shared(context.tenant, target.key.plugin)
            if not target.only_reads or approval is not None or not isinstance(course.decision, Allow):
                replayed = await self._begun(course, approval)
                if replayed is not None:
                    return self._replay(course, replayed, watch)
            elif target.manifest.operation_auth:
                await self.require_secrets(target, payload, context)
            if target.lists_itself:
                await self._unchanged(target)
            course.ran = True
            operator = answers_as_operator(target)
            if operator:
                course.context = replace(course.context, policy=snapshot(course.decision, course.approval))
            asyncio.get_running_loop().call_soon(course.hash_payload)  # while the plugin works
            result = await self.supervisor.call(
                target.key,
                target.spec,
                payload,
                course.context,
                call=course.call,
                on_event=course.hears(on_event),
                ask=ask,
                tally=course.tally,
                fate=course.fate,
            )
            self.promises.require_shape(target, result)
            if operator:
                await self.promises.require_artifacts(target, result)
            if target.manifest.kind is Kind.AGENT:
                result = self.promises.proposal(course, result)
        except InProgress as going:
            result = await self._followed(course, going, watch)
        except BaseException as error:
            await self._ended(course, None, error, watch)
            if approval is not None and not course.started and isinstance(error, PaddockError):
                await self.start.void(context.tenant, approval, error)
            raise
        else:
            if target.only_reads:
                course.end(self.clock.monotonic(), result, None, kept=watch.keeps)
                # Whoever waits for the answer need not wait for the rest as well.
                if not self.answered:
                    asyncio.get_running_loop().call_soon(self._put_down_answered)
                self.answered.append(course)
            else:
                await self._ended(course, result, None, watch)
        if course.undisclosed is not None:
            watch.flag(course.undisclosed)
        return result

    def catalogue(self, tenant: Tenant) -> Catalogue:
        """What this tenant can call."""
        return self.catalogues.get(tenant) or Catalogue(tenant=tenant)

    async def meet(self, plugin: str, tenant: Tenant) -> None:
        """Have a plugin running: what its server offers is on record when this returns.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run, and the reason.
        """
        await self._recording(tenant)
        await self.supervisor.ready(self.catalogue(tenant).entry(plugin).key)

    # --- the steps, in order ------------------------------------------------------------------------------------------

    async def _recording(self, tenant: Tenant) -> None:
        if self.records.crowded(tenant):
            await self.records.room(tenant)
        if self.records.failing is not None:
            raise self.records.failing

    async def _met(self, course: Course) -> Target:
        """The target as its server describes it now. Whoever may not call what is known of it starts no server.

        Raises:
            PaddockError: they may not call it; and see `_resolved`.
        """
        decision = await self.decides.about(course.target, course.context)
        if isinstance(decision, Deny):
            course.decision = decision
            raise refusal(decision, course.target, course.call)
        return await self._resolved(course.target)

    async def _resolved(self, target: Target) -> Target:
        """The target as its server describes it now, which is not known before the server runs.

        Raises:
            PaddockError: it may not be called, is not there any more, or its server does not run.
        """
        while target.lists_itself:
            if target.withheld is not None:
                raise target.withheld.refusal(target.key.plugin, target.asked)
            await self.supervisor.ready(target.key)
            known = self.catalogue(target.key.tenant).again(target)
            if known.key == target.key and known.withheld is None:
                return known
            target = known
        return target

    async def _unchanged(self, target: Target) -> None:
        """See to it that a server still offers what was decided about. From here to the call nothing may wait: the
        process that is called must be the one that was met.

        Raises:
            Conflict: it offers something else under that name now.
        """
        if (await self._resolved(target)).definition != target.definition:
            raise Conflict(
                f"{target.title} has changed since the call was made",
                code="callable.changed",
                hint="make the call again, to what it is now",
                details={"plugin": target.key.plugin},
            )

    def _in_scope(self, target: Target, context: CallContext) -> None:
        if target.key.tenant != context.tenant:
            raise NotFound(
                f"no plugin {target.key.plugin!r} is enabled",
                code="plugin.not_enabled",
                details={"plugin": target.key.plugin},
            )
        if target.spec.required_scopes:
            require_scopes(target.key.plugin, target.asked, target.spec.required_scopes, context.principal)

    async def require_permitted(self, target: Target, context: CallContext, call: CallId) -> None:
        """Refuse whoever may not make a call now, whatever they were allowed before.

        Raises:
            Denied: they lack a scope, or the rules forbid it.
        """
        self._in_scope(target, context)
        decision = await self.decides.about(target, context)
        if isinstance(decision, Deny):
            raise refusal(decision, target, call)

    def require_valid(self, target: Target, payload: Mapping[str, Any]) -> None:
        """Refuse parameters that do not fit what is to be called.

        Raises:
            Invalid: all that is wrong with them.
        """
        if "_call" in payload or "_context" in payload:
            reserved = "_call" if "_call" in payload else "_context"
            raise CallerError(f"{reserved} belongs to the host", code="invalid_params", hint="leave it out")
        given = dict(payload)
        if not target.input.is_valid(given):
            problems = target.input.errors(given)
            self.supervisor.require_sound(target.key)  # nobody mends parameters for a plugin that cannot run
            raise Invalid(
                f"the parameters of {target.title} are not valid",
                problems,
                code="invalid_params",
                details={"plugin": target.key.plugin},
            )

    async def require_secrets(self, target: Target, payload: Mapping[str, Any], context: CallContext) -> None:
        """Refuse a call that cannot succeed, since secrets are not set which its operation needs.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        if target.manifest.operation_auth:
            operation = operation_of(target.manifest, target.spec, payload)
            await self.secrets.require(context.tenant, context.principal.person, target.manifest, operation)

    async def _begun(self, course: Course, approval: str | None) -> Replayed | None:
        """Let a call start that has an effect, or that a person is asked about; on record where anything has to be.

        Gives what came of it before, where a call was made under the same key.

        Raises:
            PaddockError: it may not start, or not now.
        """
        target, effects = course.target, self.start.effects
        while True:
            if isinstance(course.decision, Deny):
                raise refusal(course.decision, target, course.call)
            replayed = None if target.only_reads else await effects.claim(course)
            if replayed is not None:
                return replayed
            await self.require_secrets(target, course.payload, course.context)  # nobody is asked about what cannot be
            try:
                granted = await self.start.permit(course, approval)
                if target.only_reads and granted is None:
                    return None
                if not await self.supervisor.ready(target.key):  # a yes is not spent on a plugin that does not run
                    course.decision = await self.decides.about(target, course.context)  # much may be otherwise by now
                    granted = await self.start.permit(course, approval)
                await self.start.record(course, granted)
            except (TakenMeanwhile, DecidedOtherwise):
                effects.leave(course)
                course.decision = await self.decides.about(target, course.context, anew=True)
            else:
                return None

    async def _followed(self, course: Course, going: InProgress, watch: Watch) -> Any:
        """What comes of a call whose operator is still at work. Its end is recorded when this returns."""
        following, goes_on = self.following, not course.target.only_reads
        if following is None:
            await self._ended(course, None, going, watch)
            raise going
        watch.progress(goes_on)
        result: Any = None
        try:
            if goes_on:
                await following.park(course, going)
            else:
                result = await following.ask_until_over(course, going)
        except BaseException as error:
            if course.parked:  # whoever made it went just then, and that stops nothing
                self.start.effects.leave(course)
            else:
                await self._ended(course, None, error, watch)
            raise
        if not goes_on:
            await self._ended(course, result, None, watch)
            return result
        try:
            return await following.end_of(course.context.tenant, course.call)
        except PaddockError:
            if course.status == "in_doubt":
                watch.doubt()
            raise
        finally:
            self.start.effects.leave(course)

    def _replay(self, course: Course, replayed: Replayed, watch: Watch) -> Any:
        """Give what came of a call that was made before under the same key, to whoever may make it today."""
        course.replay_of = replayed.call
        result = replayed.value()
        self._record(course, result, None)
        watch.replay(replayed.call)
        return result

    async def _ended(self, course: Course, result: Any, error: BaseException | None, watch: Watch) -> None:
        """Record what became of a call. Of an effect it is on disk when this returns.

        Raises:
            PaddockError: see `Settling.settle`.
        """
        if course.target.only_reads:
            self._record(course, result, error)
            return
        effects = self.start.effects
        try:
            if course.started:
                course.end(self.clock.monotonic(), result, error)
                try:
                    await finished(effects.settle(course, result, error))
                finally:
                    self._told(course)
            else:
                self._record(course, result, error)
                await effects.not_started(course, error)
        finally:
            effects.leave(course)
            if course.status == "in_doubt":
                watch.doubt()

    def _record(self, course: Course, result: Any, error: BaseException | None) -> None:
        course.end(self.clock.monotonic(), result, error)
        self._put_down_answered()  # in the order in which they ended
        self._put_down(course)

    def _put_down_answered(self) -> None:
        answered, self.answered = self.answered, []
        for course in answered:
            course.hash_result()
            self._put_down(course)

    def _put_down(self, course: Course) -> None:
        context = course.context
        self.records.take(
            course.apart,
            context.tenant,
            call=course.call,
            request=context.request,
            principal=context.principal.id,
            soon=course.status != "succeeded",  # whoever was refused looks for the reason at once
        )
        self._told(course)

    def tell(self, course: Course) -> None:
        """Have it known that a call has ended, elsewhere than in `call`."""
        self._told(course)

    def _told(self, course: Course) -> None:
        self.turns.leave(course.context.tenant, course.began)
        for observer in self.observers:
            observer.call_ended(course)

    def _new_id(self) -> CallId:
        return CallId(new_id("call", self.clock, self.random))
