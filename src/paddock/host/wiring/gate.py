"""Builds the gate and the approvals with their dependencies, for a host and for a dev host."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from paddock.approvals.request import PendingLimits
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant, new_id
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import Authorizer
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.effects.long_running import LongRunningCalls
from paddock.gate.effects.poll_state import DEFAULT_MAX_PROGRESS_S
from paddock.gate.effects.polling import OperatorPoller
from paddock.gate.effects.starter import CallStarter
from paddock.gate.gate import Gate
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EntryDraft, EventSource, IdentifiedDraft
from paddock.ledger.write.append import TransactionLedger, append_entries, record_all
from paddock.ledger.write.writer import LedgerWriter
from paddock.queue.node import Node
from paddock.runtime.supervisor import Supervisor
from paddock.secrets.vault import Vault
from paddock.store.database import Database, Transaction


def build_approvals(database: Database, clock: Clock, random: Random, limits: PendingLimits | None = None) -> Approvals:
    """Build the approval service; a request commits with its ledger entry. `limits` bounds open requests."""

    def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, clock, random, tenant, call)

    return Approvals(database, clock, random, publish_in, limits=limits)


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
    max_progress_s: float = DEFAULT_MAX_PROGRESS_S,
) -> Gate:
    """Build the gate to a supervisor's plugins.

    `node` is the run of the host that it belongs to; `max_progress_s` limits how long an operator may work on one call.
    """

    def append_all(tx: Transaction, drafts: Sequence[IdentifiedDraft]) -> None:
        append_entries(tx, drafts, random, sanitize=True)

    def record_in(tx: Transaction, invocation: Invocation, event: EventSource) -> None:
        # Many calls start and end at the same time: appending their entries together before the commit takes only a few
        # statements for all of them.
        event_id, now, context = new_id("evt", clock, random), clock.now(), invocation.context
        draft = EntryDraft(event, context.tenant, now, invocation.call_id, context.request, context.principal.id)
        tx.before_commit(append_all, (event_id, draft))

    def record_abandoned(tx: Transaction, events: Sequence[tuple[Tenant, CallId, Event]]) -> None:
        record_all(tx, clock, random, events)

    effects = EffectCoordinator(database, approvals, clock, node, record_in, record_abandoned)
    node.on_lease_ended.append(effects.mark_abandoned)
    node.on_lease_lost.append(supervisor.abort_effects)
    supervisor.is_node_lost = lambda: node.lease_at_risk
    starter = CallStarter(authorizer, approvals, effects, database, record_in)
    gate = Gate(supervisor, ledger, authorizer, starter, rate_limiter, secrets, clock, random)
    poller = OperatorPoller(
        database,
        clock,
        effects,
        invoke=gate.invoke,
        wait_for_room=ledger.wait_for_room,
        catalogue=gate.catalogue,
        notify_ended=gate.notify_ended,
        max_progress_s=max_progress_s,
    )
    gate.long_running = long_running = LongRunningCalls(database, clock, node, poller, record_in)

    async def wait_until_over(record: IdempotencyRecord) -> None:
        with contextlib.suppress(PaddockError):  # joining callers read the outcome from the record
            await long_running.wait_for_outcome(record.effect_key.tenant, record.call)

    effects.wait_until_over = wait_until_over
    return gate
