"""The gate: every call to a plugin goes through `Gate.call`, whoever makes it.

    admit → authorize → guard (effects and approvals) → invoke → record

Every way out is recorded, a denial too. An effect's `call.started` is on disk before the first byte reaches the plugin;
a call that only reads is recorded once, after it ran. Recovery and polling reach plugins through `Gate.invoke`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from msgspec.structs import replace

from paddock.core.call import CallContext
from paddock.core.clock import Clock, Random
from paddock.core.errors import CallerError, Invalid, NotFound, PaddockError
from paddock.core.ids import CallId, Tenant, new_id
from paddock.core.scopes import require_scopes
from paddock.gate.admission.fairness import FairScheduler
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import Authorizer, denied_error, policy_snapshot
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.gate.catalogue.dynamic_target import refresh_target, require_unchanged
from paddock.gate.effects.coordinator import KeyAlreadyClaimed, OutcomeWaiter, ReplayedResult
from paddock.gate.effects.long_running_calls import LongRunningCalls
from paddock.gate.effects.starter import CallStarter, DecisionChanged
from paddock.gate.invocation import CallRequest, Invocation
from paddock.gate.output import OutputValidator, is_kernel_operator
from paddock.gate.ports import NULL_LISTENER, CallListener, CallObserver
from paddock.ledger.write.writer import LedgerWriter
from paddock.plugins.dialects.envelope import InProgress
from paddock.policy.decision import Allow, Deny
from paddock.runtime.calls import AskCaller, OnEvent
from paddock.runtime.supervisor import Supervisor
from paddock.secrets.requirements import called_operation
from paddock.secrets.vault import Vault

_UNGUARDED: AbstractAsyncContextManager[None] = nullcontext()


@dataclasses.dataclass(slots=True)
class Gate:
    """The only way to a plugin. Each stage raises a `PaddockError` to stop the call.

    `build_long_running` and `build_outcome_waiter` build the parts that invoke plugins through this gate again.
    """

    supervisor: Supervisor
    audit_log: LedgerWriter
    authorizer: Authorizer
    starter: CallStarter
    rate_limiter: RateLimiter
    secrets: Vault
    clock: Clock
    random: Random
    catalogues: Catalogues
    output_validator: OutputValidator
    build_long_running: dataclasses.InitVar[Callable[[Gate], LongRunningCalls]]
    build_outcome_waiter: dataclasses.InitVar[Callable[[Gate], OutcomeWaiter]]
    long_running: LongRunningCalls = dataclasses.field(init=False)
    outcome_waiter: OutcomeWaiter = dataclasses.field(init=False)
    _observers: list[CallObserver] = dataclasses.field(default_factory=list[CallObserver], init=False)
    fair_scheduler: FairScheduler = dataclasses.field(default_factory=FairScheduler)
    unrecorded_reads: list[Invocation] = dataclasses.field(
        default_factory=list[Invocation]
    )  # written in the loop's next iteration

    def __post_init__(
        self,
        build_long_running: Callable[[Gate], LongRunningCalls],
        build_outcome_waiter: Callable[[Gate], OutcomeWaiter],
    ) -> None:
        self.long_running = build_long_running(self)
        self.outcome_waiter = build_outcome_waiter(self)

    async def call(self, request: CallRequest, listener: CallListener = NULL_LISTENER) -> Any:
        """Run one call and return its result. The listener is told how the call ended, before this returns.

        Raises:
            Denied: the caller lacks a scope, the policy forbids the call or what the called agent proposes, or the
                plugin describes the callable differently from what a person accepted.
            NeedsApproval: a person has to approve the call first.
            Busy: too many calls are in flight, or a rate limit is exceeded.
            Invalid: the payload does not fit the input schema; carries every mistake.
            Failed: it does not fit either, and the plugin does not run.
            CallerError: `missing_secrets`, with the names of all secrets that the operation needs and are not set.
            OutputInvalid: the answer does not fit the output schema.
            InvalidIdempotencyHint: an idempotency key that the called agent hints at cannot be filled in.
            PaddockError: see `Supervisor.call`.
        """
        await self._admit(request)
        invocation = Invocation(
            request.call_id or self._new_id(),
            request.target,
            request.payload,
            request.context,
            self.clock.monotonic(),
            request.approval,
        )
        try:
            await self._authorize(invocation)
            guarded = self._needs_guard(invocation)
            async with self.starter.effects.settled(invocation) if guarded else _UNGUARDED:
                earlier = await self._start(invocation) if guarded else None
                if earlier is None:
                    invocation.result = await self._run(invocation, request, listener)
                else:
                    invocation.replay_of, invocation.result = earlier.call, earlier.value()
        except BaseException as error:
            self._record_end(invocation, error, listener)
            if not invocation.started:
                await self._void_approval(request, error)
            raise
        result = invocation.result
        self._record_end(invocation, None, listener)
        return result

    # --- the stages, in order -----------------------------------------------------------------------------------------

    async def _admit(self, request: CallRequest) -> None:
        """Wait until the ledger has room for the call, and until it is its tenant's turn.

        Raises:
            PaddockError: nothing can be recorded now, so nothing may be done.
        """
        tenant = request.context.tenant
        if self.audit_log.failing is not None or self.audit_log.overloaded(tenant):
            try:
                await self._require_recording(tenant)
            except PaddockError as error:
                await self._void_approval(request, error)
                raise
        if (turn := self.fair_scheduler.enter(tenant)) is not None:
            await turn

    async def _authorize(self, invocation: Invocation) -> None:
        """Check scopes, rate limits, the input schema and the policy, for the target as its server describes it now.

        A call that waited for a person was counted by the rate limits when it was made.

        Raises:
            PaddockError: one of them forbids the call.
        """
        target, context, is_new = invocation.target, invocation.context, invocation.resumed_approval is None
        self._require_scope(target, context)
        if is_new:
            self.rate_limiter.take_for_principal(context.tenant, context.principal.id)
        if target.dynamic:
            invocation.target = target = await self._refresh_if_permitted(invocation)
        self.require_valid(target, invocation.payload)
        decision = self.authorizer.decide_cached(target, context) or await self.authorizer.decide(target, context)
        invocation.decision = decision
        if isinstance(decision, Deny):
            raise denied_error(decision, target, invocation.call_id)
        if is_new:
            self.rate_limiter.take_for_tenant_and_plugin(context.tenant, target.key.plugin)

    def _needs_guard(self, invocation: Invocation) -> bool:
        """Whether a call has to be started and settled.

        A read that the policy allows needs neither: there is nothing to repeat, and nobody to ask.
        """
        free = isinstance(invocation.decision, Allow) and invocation.resumed_approval is None
        return not (free and invocation.only_reads)

    async def _start(self, invocation: Invocation) -> ReplayedResult | None:
        """Claim the key, check secrets and approval, and record `call.started`.

        Gives the earlier result where a call was made under the same key.

        Raises:
            PaddockError: the call may not start, or not now.
        """
        target, effects = invocation.target, self.starter.effects
        while True:
            if (
                not invocation.only_reads
                and (earlier := await effects.claim(invocation, self.outcome_waiter)) is not None
            ):
                return earlier
            # Before a person is asked: a call that cannot succeed is not worth their time.
            await self.require_secrets(target, invocation.payload, invocation.context)
            try:
                await self.starter.permit(invocation)
                if invocation.only_reads and invocation.resumed_approval is None:
                    return None
                # An approval is not spent on a plugin that does not run. While it starts, the decision may change.
                if not await self.supervisor.ensure_running(target.key):
                    invocation.decision = await self.authorizer.decide(target, invocation.context)
                    await self.starter.permit(invocation)
                await self.starter.record_start(invocation)
            except (KeyAlreadyClaimed, DecisionChanged):
                effects.release_key(invocation)
                invocation.decision = await self.authorizer.decide(target, invocation.context, anew=True)
                if isinstance(invocation.decision, Deny):
                    raise denied_error(invocation.decision, target, invocation.call_id) from None
            else:
                return None

    async def _run(self, invocation: Invocation, request: CallRequest, listener: CallListener) -> Any:
        """Invoke the plugin, and wait for an operator that answers that it is still at work."""
        if is_kernel_operator(invocation.target):
            snapshot = policy_snapshot(invocation.decision, invocation.approval)
            invocation.context = replace(invocation.context, policy=snapshot)
        try:
            return await self.invoke(invocation, request.on_event, request.ask)
        except InProgress as pending:
            return await self.long_running.finish(invocation, pending, listener)

    async def invoke(
        self, invocation: Invocation, on_event: OnEvent | None = None, ask: AskCaller | None = None
    ) -> Any:
        """Send a call to its plugin and check the answer. Nothing else sends calls to plugins.

        It neither authorizes nor records: `call`, recovery and polling do that around it.

        Raises:
            InProgress: the operator is still at work.
            CallerError: `missing_secrets`, as for `call`.
            Conflict: the server offers something else under that name by now.
            OutputInvalid: the answer does not fit the output schema.
            PaddockError: see `Supervisor.call`.
        """
        target = invocation.target
        if target.manifest.operation_auth:
            await self.require_secrets(target, invocation.payload, invocation.context)
        if target.dynamic:
            await require_unchanged(target, self.supervisor, self.catalogues)
        invocation.ran = True
        asyncio.get_running_loop().call_soon(invocation.hash_payload)  # while the plugin works
        result = await self.supervisor.call(
            target.key,
            target.spec,
            invocation.payload,
            invocation.context,
            call=invocation.call_id,
            on_event=invocation.wrap_listener(on_event),
            ask=ask,
            method_counts=invocation.tally,
            status=invocation.delivery,
        )
        return await self.output_validator.checked(invocation, result)

    def _record_end(self, invocation: Invocation, error: BaseException | None, listener: CallListener) -> None:
        """Record the end of a call, unless that is done already or left to the poller, and tell who listens."""
        only_reads = invocation.only_reads
        if not invocation.parked:
            if not invocation.finished:
                retained = only_reads and listener.retains_result
                invocation.finish(self.clock.monotonic(), invocation.result, error, retained=retained)
            if invocation.started and not only_reads:
                self.notify_ended(invocation)  # its entry was written with its outcome
            elif error is None and only_reads:
                # The caller need not wait for the entry.
                if not self.unrecorded_reads:
                    asyncio.get_running_loop().call_soon(self._flush_reads)
                self.unrecorded_reads.append(invocation)
            else:
                self._flush_reads()  # entries are in the order in which their calls ended
                self._append_entry(invocation)
        listener.on_ended(invocation)

    async def _void_approval(self, request: CallRequest, error: BaseException) -> None:
        """Void the approval of a call that failed before it started, so that no later start makes it after all."""
        if request.approval is not None and isinstance(error, PaddockError):
            await self.starter.void(request.context.tenant, request.approval, error)

    # --- checks and records -------------------------------------------------------------------------------------------

    def catalogue(self, tenant: Tenant) -> Catalogue:
        """The catalogue of a tenant."""
        return self.catalogues.of(tenant)

    async def ensure_started(self, plugin: str, tenant: Tenant) -> None:
        """Start a plugin; the definitions that its server lists are on record when this returns.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run, and the reason.
        """
        await self._require_recording(tenant)
        await self.supervisor.ensure_running(self.catalogue(tenant).entry(plugin).key)

    async def _require_recording(self, tenant: Tenant) -> None:
        if self.audit_log.overloaded(tenant):
            await self.audit_log.wait_for_room(tenant)
        if self.audit_log.failing is not None:
            raise self.audit_log.failing

    async def _refresh_if_permitted(self, invocation: Invocation) -> CallTarget:
        """The target as its server describes it now. No server is started for a caller whom the policy denies it.

        Raises:
            PaddockError: the policy denies the call; and see `refresh_target`.
        """
        decision = await self.authorizer.decide(invocation.target, invocation.context)
        if isinstance(decision, Deny):
            invocation.decision = decision
            raise denied_error(decision, invocation.target, invocation.call_id)
        return await refresh_target(invocation.target, self.supervisor, self.catalogues)

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
        """Require that a principal may make a call now, whatever was allowed before.

        Raises:
            Denied: the principal lacks a scope, or the policy forbids it.
        """
        self._require_scope(target, context)
        decision = await self.authorizer.decide(target, context)
        if isinstance(decision, Deny):
            raise denied_error(decision, target, call)

    def require_valid(self, target: CallTarget, payload: Mapping[str, Any]) -> None:
        """Require that a payload fits the input schema of its target.

        Raises:
            Invalid: it does not; carries every mistake.
            Failed: it does not, and the plugin does not run.
        """
        if "_call" in payload or "_context" in payload:
            reserved = "_call" if "_call" in payload else "_context"
            raise CallerError(f"{reserved} belongs to the host", code="invalid_params", hint="leave it out")
        params = dict(payload)
        if not target.input.is_valid(params):
            problems = target.input.errors(params)
            self.supervisor.require_not_failed(target.key)  # correcting parameters does not help where it cannot run
            raise Invalid(
                f"the parameters of {target.title} are not valid",
                problems,
                code="invalid_params",
                details={"plugin": target.key.plugin},
            )

    async def require_secrets(self, target: CallTarget, payload: Mapping[str, Any], context: CallContext) -> None:
        """Require that all secrets are set that the called operation needs.

        Raises:
            CallerError: `missing_secrets`, with all of their names.
        """
        if target.manifest.operation_auth:
            operation = called_operation(target.manifest, target.spec, payload)
            await self.secrets.require(context.tenant, context.principal.person, target.manifest, operation)

    def observe(self, *observers: CallObserver) -> None:
        """Tell these of every call that ends from now on."""
        self._observers += observers

    def notify_ended(self, invocation: Invocation) -> None:
        """Tell the scheduler and all observers that a call has ended."""
        self.fair_scheduler.leave(invocation.context.tenant, invocation.began)
        for observer in self._observers:
            observer(invocation)

    def _flush_reads(self) -> None:
        ended, self.unrecorded_reads = self.unrecorded_reads, []
        for invocation in ended:
            invocation.hash_result()
            self._append_entry(invocation)

    def _append_entry(self, invocation: Invocation) -> None:
        context = invocation.context
        self.audit_log.enqueue(
            invocation.split_event,
            context.tenant,
            call=invocation.call_id,
            request=context.request,
            principal=context.principal.id,
            soon=invocation.status != "succeeded",  # a caller who was refused looks for the reason at once
        )
        self.notify_ended(invocation)

    def _new_id(self) -> CallId:
        return CallId(new_id("call", self.clock, self.random))
