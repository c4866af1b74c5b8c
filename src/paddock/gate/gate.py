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
from paddock.core.scopes import require_scopes
from paddock.core.tasks import run_to_completion
from paddock.gate.admission.fairness import FairScheduler
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import Authorizer, denied_error, policy_snapshot
from paddock.gate.catalogue.catalogue import CallTarget, Catalogue
from paddock.gate.effects.coordinator import KeyAlreadyClaimed, ReplayedResult
from paddock.gate.effects.long_running import LongRunningCalls
from paddock.gate.effects.starter import CallStarter, DecisionChanged
from paddock.gate.invocation import Invocation
from paddock.gate.output import OutputValidator, is_kernel_operator
from paddock.gate.ports import NULL_LISTENER, AuditLog, CallListener, CallObserver, SecretChecker
from paddock.manifest.model import PluginKind
from paddock.plugins.dialects.envelope import InProgress
from paddock.policy.decision import Allow, Deny
from paddock.runtime.calls import AskCaller, OnEvent
from paddock.runtime.supervisor import Supervisor
from paddock.secrets.requirements import called_operation


@dataclass(slots=True)
class Gate:
    """Built once by the host, which replaces the catalogues, one for each tenant, when plugins come and go."""

    supervisor: Supervisor
    audit_log: AuditLog
    authorizer: Authorizer
    starter: CallStarter
    rate_limiter: RateLimiter
    secrets: SecretChecker
    clock: Clock
    random: Random
    catalogues: Mapping[Tenant, Catalogue] = field(default_factory=dict[Tenant, Catalogue])
    observers: list[CallObserver] = field(default_factory=list[CallObserver])
    fair_scheduler: FairScheduler = field(default_factory=FairScheduler)
    output_validator: OutputValidator = field(default_factory=OutputValidator)
    unrecorded_reads: list[Invocation] = field(default_factory=list[Invocation])  # calls that are put down in a moment
    long_running: LongRunningCalls | None = None  # None: what is still in progress counts as unanswered

    async def call(
        self,
        target: CallTarget,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        call: CallId | None = None,
        approval: str | None = None,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
        watch: CallListener = NULL_LISTENER,
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
        if self.audit_log.overloaded(context.tenant) or self.audit_log.failing is not None:
            try:
                await self._require_recording(context.tenant)
            except PaddockError as error:
                if approval is not None:
                    await self.starter.void(context.tenant, approval, error)
                raise
        if (turn := self.fair_scheduler.enter(context.tenant)) is not None:
            await turn
        course = Invocation(call or self._new_id(), target, payload, context, self.clock.monotonic())
        course.resumed = approval is not None
        try:
            self._require_scope(target, context)
            if approval is None:  # one that waited was counted when it was made
                self.rate_limiter.take_for_principal(context.tenant, context.principal.id)
            if target.dynamic:
                course.target = target = await self._refresh_if_permitted(course)
            self.require_valid(target, payload)
            course.decision = self.authorizer.decide_cached(target, context) or await self.authorizer.decide(
                target, context
            )
            if approval is None and not isinstance(course.decision, Deny):
                self.rate_limiter.take_for_tenant_and_plugin(context.tenant, target.key.plugin)
            if not target.read_only or approval is not None or not isinstance(course.decision, Allow):
                replayed = await self._begin(course, approval)
                if replayed is not None:
                    return self._replay(course, replayed, watch)
            elif target.manifest.operation_auth:
                await self.require_secrets(target, payload, context)
            if target.dynamic:
                await self._require_unchanged(target)
            course.ran = True
            operator = is_kernel_operator(target)
            if operator:
                course.context = replace(course.context, policy=policy_snapshot(course.decision, course.approval))
            asyncio.get_running_loop().call_soon(course.hash_payload)  # while the plugin works
            result = await self.supervisor.call(
                target.key,
                target.spec,
                payload,
                course.context,
                call=course.call_id,
                on_event=course.wrap_listener(on_event),
                ask=ask,
                method_counts=course.tally,
                status=course.delivery,
            )
            self.output_validator.validate_schema(target, result)
            if operator:
                await self.output_validator.validate_artifacts(target, result)
            if target.manifest.kind is PluginKind.AGENT:
                result = self.output_validator.check_proposal(course, result)
        except InProgress as going:
            result = await self._finish_long_running(course, going, watch)
        except BaseException as error:
            await self._end(course, None, error, watch)
            if approval is not None and not course.started and isinstance(error, PaddockError):
                await self.starter.void(context.tenant, approval, error)
            raise
        else:
            if target.read_only:
                course.finish(self.clock.monotonic(), result, None, kept=watch.retains_result)
                # Whoever waits for the answer need not wait for the rest as well.
                if not self.unrecorded_reads:
                    asyncio.get_running_loop().call_soon(self._flush_reads)
                self.unrecorded_reads.append(course)
            else:
                await self._end(course, result, None, watch)
        if course.undisclosed is not None:
            watch.on_undisclosed(course.undisclosed)
        return result

    def catalogue(self, tenant: Tenant) -> Catalogue:
        """What this tenant can call."""
        return self.catalogues.get(tenant) or Catalogue(tenant=tenant)

    async def ensure_started(self, plugin: str, tenant: Tenant) -> None:
        """Have a plugin running: what its server offers is on record when this returns.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run, and the reason.
        """
        await self._require_recording(tenant)
        await self.supervisor.ensure_running(self.catalogue(tenant).entry(plugin).key)

    # --- the steps, in order ------------------------------------------------------------------------------------------

    async def _require_recording(self, tenant: Tenant) -> None:
        if self.audit_log.overloaded(tenant):
            await self.audit_log.wait_for_room(tenant)
        if self.audit_log.failing is not None:
            raise self.audit_log.failing

    async def _refresh_if_permitted(self, course: Invocation) -> CallTarget:
        """The target as its server describes it now. Whoever may not call what is known of it starts no server.

        Raises:
            PaddockError: they may not call it; and see `_resolved`.
        """
        decision = await self.authorizer.decide(course.target, course.context)
        if isinstance(decision, Deny):
            course.decision = decision
            raise denied_error(decision, course.target, course.call_id)
        return await self._refresh_target(course.target)

    async def _refresh_target(self, target: CallTarget) -> CallTarget:
        """The target as its server describes it now, which is not known before the server runs.

        Raises:
            PaddockError: it may not be called, is not there any more, or its server does not run.
        """
        while target.dynamic:
            if target.withheld is not None:
                raise target.withheld.unavailable_error(target.key.plugin, target.requested_name)
            await self.supervisor.ensure_running(target.key)
            known = self.catalogue(target.key.tenant).refresh(target)
            if known.key == target.key and known.withheld is None:
                return known
            target = known
        return target

    async def _require_unchanged(self, target: CallTarget) -> None:
        """See to it that a server still offers what was decided about. From here to the call nothing may wait: the
        process that is called must be the one that was met.

        Raises:
            Conflict: it offers something else under that name now.
        """
        if (await self._refresh_target(target)).definition_hash != target.definition_hash:
            raise Conflict(
                f"{target.title} has changed since the call was made",
                code="callable.changed",
                hint="make the call again, to what it is now",
                details={"plugin": target.key.plugin},
            )

    def _require_scope(self, target: CallTarget, context: CallContext) -> None:
        if target.key.tenant != context.tenant:
            raise NotFound(
                f"no plugin {target.key.plugin!r} is enabled",
                code="plugin.not_enabled",
                details={"plugin": target.key.plugin},
            )
        if target.spec.required_scopes:
            require_scopes(target.key.plugin, target.requested_name, target.spec.required_scopes, context.principal)

    async def require_permitted(self, target: CallTarget, context: CallContext, call: CallId) -> None:
        """Refuse whoever may not make a call now, whatever they were allowed before.

        Raises:
            Denied: they lack a scope, or the rules forbid it.
        """
        self._require_scope(target, context)
        decision = await self.authorizer.decide(target, context)
        if isinstance(decision, Deny):
            raise denied_error(decision, target, call)

    def require_valid(self, target: CallTarget, payload: Mapping[str, Any]) -> None:
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
            self.supervisor.require_not_failed(target.key)  # nobody mends parameters for a plugin that cannot run
            raise Invalid(
                f"the parameters of {target.title} are not valid",
                problems,
                code="invalid_params",
                details={"plugin": target.key.plugin},
            )

    async def require_secrets(self, target: CallTarget, payload: Mapping[str, Any], context: CallContext) -> None:
        """Refuse a call that cannot succeed, since secrets are not set which its operation needs.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        if target.manifest.operation_auth:
            operation = called_operation(target.manifest, target.spec, payload)
            await self.secrets.require(context.tenant, context.principal.person, target.manifest, operation)

    async def _begin(self, course: Invocation, approval: str | None) -> ReplayedResult | None:
        """Let a call start that has an effect, or that a person is asked about; on record where anything has to be.

        Gives what came of it before, where a call was made under the same key.

        Raises:
            PaddockError: it may not start, or not now.
        """
        target, effects = course.target, self.starter.effects
        while True:
            if isinstance(course.decision, Deny):
                raise denied_error(course.decision, target, course.call_id)
            replayed = None if target.read_only else await effects.claim(course)
            if replayed is not None:
                return replayed
            await self.require_secrets(target, course.payload, course.context)  # nobody is asked about what cannot be
            try:
                granted = await self.starter.permit(course, approval)
                if target.read_only and granted is None:
                    return None
                if not await self.supervisor.ensure_running(
                    target.key
                ):  # a yes is not spent on a plugin that does not run
                    course.decision = await self.authorizer.decide(
                        target, course.context
                    )  # much may be otherwise by now
                    granted = await self.starter.permit(course, approval)
                await self.starter.record_start(course, granted)
            except (KeyAlreadyClaimed, DecisionChanged):
                effects.release_key(course)
                course.decision = await self.authorizer.decide(target, course.context, anew=True)
            else:
                return None

    async def _finish_long_running(self, course: Invocation, going: InProgress, watch: CallListener) -> Any:
        """What comes of a call whose operator is still at work. Its end is recorded when this returns."""
        following, goes_on = self.long_running, not course.target.read_only
        if following is None:
            await self._end(course, None, going, watch)
            raise going
        watch.on_progress(goes_on)
        result: Any = None
        try:
            if goes_on:
                await following.park(course, going)
            else:
                result = await following.poll_until_done(course, going)
        except BaseException as error:
            if course.parked:  # whoever made it went just then, and that stops nothing
                self.starter.effects.release_key(course)
            else:
                await self._end(course, None, error, watch)
            raise
        if not goes_on:
            await self._end(course, result, None, watch)
            return result
        try:
            return await following.wait_for_outcome(course.context.tenant, course.call_id)
        except PaddockError:
            if course.status == "in_doubt":
                watch.on_in_doubt()
            raise
        finally:
            self.starter.effects.release_key(course)

    def _replay(self, course: Invocation, replayed: ReplayedResult, watch: CallListener) -> Any:
        """Give what came of a call that was made before under the same key, to whoever may make it today."""
        course.replay_of = replayed.call
        result = replayed.value()
        self._record(course, result, None)
        watch.on_replay(replayed.call)
        return result

    async def _end(self, course: Invocation, result: Any, error: BaseException | None, watch: CallListener) -> None:
        """Record what became of a call. Of an effect it is on disk when this returns.

        Raises:
            PaddockError: see `Settling.settle`.
        """
        if course.target.read_only:
            self._record(course, result, error)
            return
        effects = self.starter.effects
        try:
            if course.started:
                course.finish(self.clock.monotonic(), result, error)
                try:
                    await run_to_completion(effects.record_outcome(course, result, error))
                finally:
                    self._notify_observers(course)
            else:
                self._record(course, result, error)
                await effects.release_unstarted(course, error)
        finally:
            effects.release_key(course)
            if course.status == "in_doubt":
                watch.on_in_doubt()

    def _record(self, course: Invocation, result: Any, error: BaseException | None) -> None:
        course.finish(self.clock.monotonic(), result, error)
        self._flush_reads()  # in the order in which they ended
        self._append_entry(course)

    def _flush_reads(self) -> None:
        answered, self.unrecorded_reads = self.unrecorded_reads, []
        for course in answered:
            course.hash_result()
            self._append_entry(course)

    def _append_entry(self, course: Invocation) -> None:
        context = course.context
        self.audit_log.enqueue(
            course.split_event,
            context.tenant,
            call=course.call_id,
            request=context.request,
            principal=context.principal.id,
            soon=course.status != "succeeded",  # whoever was refused looks for the reason at once
        )
        self._notify_observers(course)

    def notify_ended(self, course: Invocation) -> None:
        """Have it known that a call has ended, elsewhere than in `call`."""
        self._notify_observers(course)

    def _notify_observers(self, course: Invocation) -> None:
        self.fair_scheduler.leave(course.context.tenant, course.began)
        for observer in self.observers:
            observer.call_ended(course)

    def _new_id(self) -> CallId:
        return CallId(new_id("call", self.clock, self.random))
