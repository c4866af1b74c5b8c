"""The one door with everything that it needs, as a host and a workshop build it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.event import Event, Publish
from paddock.core.events_host import PluginMethodCalled, PluginMethodReturned
from paddock.core.ids import CallId, Tenant, new_id
from paddock.gate.asking_again import A_DAY
from paddock.gate.beside import Secrets
from paddock.gate.course import Course
from paddock.gate.deciding import Decides
from paddock.gate.effects.records import Effect as InDatabase
from paddock.gate.gate import Gate
from paddock.gate.in_progress import Following
from paddock.gate.limits import Limits
from paddock.gate.looks import Looks
from paddock.gate.once import Effects
from paddock.gate.starting import Start
from paddock.ledger.append import LedgerTable, append, record_all
from paddock.ledger.entry import Draft, Made, NamedDraft
from paddock.ledger.writer import LedgerWriter
from paddock.plugins.supervision.supervisor import Supervisor
from paddock.policy.approvals.desk import Approvals
from paddock.policy.approvals.room import Room
from paddock.queue.node import Node
from paddock.store.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class BesideTheGate:
    """Passes on what happens to plugins, but for calls: the gate tells of each of them, with all that it knows."""

    inside: Publish

    def publish(self, event: Event) -> None:
        if not isinstance(event, PluginMethodCalled | PluginMethodReturned):
            self.inside.publish(event)


def approvals_on(database: Database, clock: Clock, random: Random, room: Room | None = None) -> Approvals:
    """The requests for a person's yes, each kept with its entry in the ledger; `room` says how much may wait."""

    def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> LedgerTable:
        return LedgerTable(tx, clock, random, tenant, call)

    return Approvals(database, clock, random, publish_in, room=room)


def gate_to(
    supervisor: Supervisor,
    *,
    ledger: LedgerWriter,
    database: Database,
    decides: Decides,
    approvals: Approvals,
    limits: Limits,
    secrets: Secrets,
    clock: Clock,
    random: Random,
    node: Node,
    in_progress_s: float = A_DAY,
) -> Gate:
    """The door to these plugins; `node` is the run of a host that it belongs to, and `in_progress_s` how long operators
    may be at work on one call."""

    def append_all(tx: Transaction, drafts: Sequence[NamedDraft]) -> None:
        append(tx, drafts, random, mend=True)

    def record_in(tx: Transaction, course: Course, event: Made) -> None:
        # Calls start and end together where many are under way: their entries are made together too, which takes a few
        # statements for all of them.
        name, now, context = new_id("evt", clock, random), clock.now(), course.context
        draft = Draft(event, context.tenant, now, course.call, context.request, context.principal.id)
        tx.at_the_end(append_all, (name, draft))

    def record_lost(tx: Transaction, events: Sequence[tuple[Tenant, CallId, Event]]) -> None:
        record_all(tx, clock, random, events)

    effects = Effects(database, approvals, clock, node, record_in, record_lost)
    node.when_over.append(effects.abandoned)
    node.when_lost.append(supervisor.end_effects)
    supervisor.cut_off = lambda: node.silent
    start = Start(decides, approvals, effects, database, record_in)
    gate = Gate(supervisor, ledger, decides, start, limits, secrets, clock, random)
    looks = Looks(
        database,
        clock,
        effects,
        supervisor,
        room=ledger.room,
        catalogue=gate.catalogue,
        require_promised=gate.promises.require,
        told=gate.tell,
        longest=in_progress_s,
    )
    gate.following = following = Following(database, clock, node, looks, record_in)

    async def until_over(effect: InDatabase) -> None:
        with contextlib.suppress(PaddockError):  # whoever joins finds out by the record
            await following.end_of(effect.of.tenant, effect.call)

    effects.until_over = until_over
    return gate
