"""The one door with everything that it needs, as a host and a workshop build it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from paddock.approvals.request import PendingLimits
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.event import Event, EventSink
from paddock.core.events.plugin_runtime import PluginMethodCalled, PluginMethodReturned
from paddock.core.ids import CallId, Tenant, new_id
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import Authorizer
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.effects.long_running import LongRunningCalls
from paddock.gate.effects.poll_state import DEFAULT_MAX_PROGRESS_S
from paddock.gate.effects.polling import OperatorPoller
from paddock.gate.effects.starter import CallStarter
from paddock.gate.gate import Gate
from paddock.gate.idempotency.records import IdempotencyRecord as InDatabase
from paddock.gate.invocation import Invocation
from paddock.gate.ports import SecretChecker
from paddock.ledger.entry import EntryDraft, EventSource, IdentifiedDraft
from paddock.ledger.write.append import TransactionLedger, append_entries, record_all
from paddock.ledger.write.writer import LedgerWriter
from paddock.queue.node import Node
from paddock.runtime.supervisor import Supervisor
from paddock.store.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class DropMethodEvents:
    """Passes on what happens to plugins, but for calls: the gate tells of each of them, with all that it knows."""

    publisher: EventSink

    def publish(self, event: Event) -> None:
        if not isinstance(event, PluginMethodCalled | PluginMethodReturned):
            self.publisher.publish(event)


def build_approvals(database: Database, clock: Clock, random: Random, room: PendingLimits | None = None) -> Approvals:
    """The requests for a person's yes, each kept with its entry in the ledger; `room` says how much may wait."""

    def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, clock, random, tenant, call)

    return Approvals(database, clock, random, publish_in, room=room)


def build_gate(
    supervisor: Supervisor,
    *,
    ledger: LedgerWriter,
    database: Database,
    decides: Authorizer,
    approvals: Approvals,
    limits: RateLimiter,
    secrets: SecretChecker,
    clock: Clock,
    random: Random,
    node: Node,
    in_progress_s: float = DEFAULT_MAX_PROGRESS_S,
) -> Gate:
    """The door to these plugins; `node` is the run of a host that it belongs to, and `in_progress_s` how long operators
    may be at work on one call."""

    def append_all(tx: Transaction, drafts: Sequence[IdentifiedDraft]) -> None:
        append_entries(tx, drafts, random, sanitize=True)

    def record_in(tx: Transaction, course: Invocation, event: EventSource) -> None:
        # Calls start and end together where many are under way: their entries are made together too, which takes a few
        # statements for all of them.
        name, now, context = new_id("evt", clock, random), clock.now(), course.context
        draft = EntryDraft(event, context.tenant, now, course.call_id, context.request, context.principal.id)
        tx.before_commit(append_all, (name, draft))

    def record_lost(tx: Transaction, events: Sequence[tuple[Tenant, CallId, Event]]) -> None:
        record_all(tx, clock, random, events)

    effects = EffectCoordinator(database, approvals, clock, node, record_in, record_lost)
    node.on_lease_ended.append(effects.mark_abandoned)
    node.on_lease_lost.append(supervisor.abort_effects)
    supervisor.is_node_lost = lambda: node.lease_at_risk
    start = CallStarter(decides, approvals, effects, database, record_in)
    gate = Gate(supervisor, ledger, decides, start, limits, secrets, clock, random)
    looks = OperatorPoller(
        database,
        clock,
        effects,
        supervisor,
        room=ledger.wait_for_room,
        catalogue=gate.catalogue,
        require_promised=gate.output_validator.validate,
        told=gate.notify_ended,
        longest=in_progress_s,
    )
    gate.long_running = following = LongRunningCalls(database, clock, node, looks, record_in)

    async def until_over(effect: InDatabase) -> None:
        with contextlib.suppress(PaddockError):  # whoever joins finds out by the record
            await following.wait_for_outcome(effect.effect_key.tenant, effect.call)

    effects.wait_until_over = until_over
    return gate
