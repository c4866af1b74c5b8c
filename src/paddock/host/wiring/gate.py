"""Builds the gate and the approvals with their dependencies, for a host and for a dev host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from msgspec import Struct

from paddock.approvals.deadlines import NearestDeadlines
from paddock.approvals.request import PendingLimits
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant, new_id
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import Authorizer
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.effects.in_doubt import InDoubtEffects
from paddock.gate.effects.long_running_calls import LongRunningCalls
from paddock.gate.effects.outcomes import OutcomeRecorder
from paddock.gate.effects.poll_state import DEFAULT_MAX_PROGRESS_S
from paddock.gate.effects.poller import OperatorPoller
from paddock.gate.effects.starter import CallStarter
from paddock.gate.gate import Gate
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.invocation import Invocation
from paddock.gate.output import OutputValidator
from paddock.gate.recovery import RecoveryWaiter
from paddock.ledger.entry import EntryDraft, EventSource
from paddock.ledger.write.append import TransactionLedger, record_all, record_draft
from paddock.ledger.write.writer import LedgerWriter
from paddock.queue.node import Node
from paddock.runtime.supervisor import Supervisor
from paddock.secrets.vault import Vault
from paddock.store.database import Database, Transaction


def build_approvals(
    database: Database,
    clock: Clock,
    random: Random,
    limits: PendingLimits | None = None,
    deadlines: NearestDeadlines | None = None,
) -> Approvals:
    """Build the approval service; a request commits with its ledger entry. `limits` bounds open requests."""

    def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, clock, random, tenant, call)

    return Approvals(database, clock, random, publish_in, limits=limits, deadlines=deadlines)


def build_gate(
    supervisor: Supervisor,
    *,
    ledger: LedgerWriter,
    database: Database,
    authorizer: Authorizer,
    approvals: Approvals,
    rate_limiter: RateLimiter,
    secrets: Vault,
    clock: Clock,
    random: Random,
    node: Node,
    catalogues: Catalogues,
    output_validator: OutputValidator | None = None,
    on_effect_succeeded: Callable[[IdempotencyRecord], None] = lambda _effect: None,
    wake_worker: Callable[[], None] | None = None,
    recovery_waiter_for: Callable[[Gate], RecoveryWaiter] | None = None,
    max_progress_s: float = DEFAULT_MAX_PROGRESS_S,
) -> Gate:
    """Build the gate to a supervisor's plugins.

    Args:
        supervisor: Runs the plugins.
        ledger, database: Record calls and their effects.
        authorizer, approvals, rate_limiter, secrets: Decide whether a call may run.
        clock, random: For timestamps and ids.
        node: The run of the host that the gate belongs to.
        catalogues: The callables of each tenant.
        output_validator: Checks answers; without one only their schemas are checked.
        on_effect_succeeded: Called with each effect whose success is on disk.
        wake_worker: Wakes the host's worker when a recovery or poll is enqueued; None if the host has no worker.
        recovery_waiter_for: Builds the waiter for effects in doubt; without one no call waits for them.
        max_progress_s: How long an operator may work on one call.
    """

    def record_in(tx: Transaction, invocation: Invocation, event: EventSource) -> None:
        event_id, now, context = new_id("evt", clock, random), clock.now(), invocation.context
        draft = EntryDraft(event, context.tenant, now, invocation.call_id, context.request, context.principal.id)
        record_draft(tx, (event_id, draft), random)

    def record_abandoned(tx: Transaction, events: Sequence[tuple[Tenant, CallId, Event]]) -> None:
        record_all(tx, clock, random, events)

    in_doubt = InDoubtEffects(database, clock, record_abandoned, wake_worker or (lambda: None))
    outcomes = OutcomeRecorder(database, clock, record_in, in_doubt, on_effect_succeeded)
    effects = EffectCoordinator(database, approvals, clock, node, outcomes, in_doubt)
    node.subscribe(on_lease_ended=in_doubt.mark_abandoned, on_lease_lost=supervisor.abort_effects)

    def build_long_running(gate: Gate) -> LongRunningCalls:
        poller = OperatorPoller(
            database,
            clock,
            effects,
            invoke=gate.invoke,
            wait_for_room=ledger.wait_for_room,
            catalogue=catalogues.of,
            notify_ended=gate.notify_ended,
            max_progress_s=max_progress_s,
        )
        return LongRunningCalls(database, clock, node, poller, record_in, wake_worker)

    def build_outcome_waiter(gate: Gate) -> GateOutcomeWaiter:
        recovery_waiter = None if recovery_waiter_for is None else recovery_waiter_for(gate)
        return GateOutcomeWaiter(gate.long_running, recovery_waiter)

    return Gate(
        supervisor,
        ledger,
        authorizer,
        CallStarter(authorizer, approvals, effects, database, record_in),
        rate_limiter,
        secrets,
        clock,
        random,
        catalogues,
        output_validator or OutputValidator(),
        build_long_running,
        build_outcome_waiter,
    )


class GateOutcomeWaiter(Struct, frozen=True):
    """Waits for the outcome of an earlier call: in progress, or in doubt."""

    long_running: LongRunningCalls
    recovery_waiter: RecoveryWaiter | None

    async def wait_until_over(self, effect: IdempotencyRecord) -> None:
        with contextlib.suppress(PaddockError):  # joining callers read the outcome from the record
            await self.long_running.wait_for_outcome(effect.effect_key.tenant, effect.call)

    async def wait_until_resolved(self, effect: IdempotencyRecord) -> bool:
        return self.recovery_waiter is not None and await self.recovery_waiter.wait_until_resolved(effect)
