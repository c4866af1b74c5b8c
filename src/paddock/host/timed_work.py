"""What a daemon does by itself when its time has come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, NotFound, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.calls import KEPT_CALLS, Calls
from paddock.gate.effects.forgetting import forget_old
from paddock.gate.effects.records import RECOVER
from paddock.gate.gate import Gate
from paddock.gate.looks import FOLLOW, Looks
from paddock.gate.once import recover_at
from paddock.gate.recovering import Notes, Recovery
from paddock.gate.resume import Resumption
from paddock.ledger.append import LedgerTable
from paddock.plugins.supervision.flight import LONGEST
from paddock.policy.approvals.approval import OPEN
from paddock.policy.approvals.desk import Approvals
from paddock.policy.approvals.expiring import EXPIRE
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.queue import Work
from paddock.queue.schedule import Again, Pauses
from paddock.queue.worker import Kind, PublishIn, Worker, open_worker
from paddock.store.database import Database

FORGET = "effect.forget"
_FORGET_EVERY = timedelta(hours=1)
_AT_A_TIME = 1000

FOR_A_DAY = Pauses(longest=900.0, tries=105)
"""For what only has to wait: a plugin may be switched off for a while, or whatever it asks may be down."""


def expiry(approvals: Approvals, resumption: Resumption) -> Kind:
    """Ends requests that nobody answered in time, and the calls that waited for them."""

    async def expire(work: Work) -> Again | None:
        try:
            over = await approvals.expire_one(work.tenant, work.key)
            if over is not None:
                await resumption.answered(over)
                return None
            still = await approvals.find(work.tenant, work.key)
        except NotFound:
            return None
        # The clock was set back: its time is not over.
        return Again(datetime.fromisoformat(still.binding.expires_at)) if still.state in OPEN else None

    return Kind(expire)


def forgetting(database: Database, clock: Clock, keep: timedelta) -> Kind:
    """Lets go of what came of effects once it was kept for that long, a thousand at a time."""

    async def forget(_work: Work) -> Again | None:
        now = clock.now()
        some = partial(forget_old, before=(now - keep).isoformat(), now=now.isoformat(), limit=_AT_A_TIME)
        while await database.write(some) == _AT_A_TIME:
            pass
        return Again(now + _FORGET_EVERY)

    return Kind(forget, FOR_A_DAY)


def recovering(recovery: Recovery) -> Kind:
    """Finds out what became of effects. What cannot be found out in a day waits for a person, or for the next start."""

    async def recover(work: Work) -> Again | None:
        return await recovery.recover(work.tenant, work.key)

    return Kind(recover, FOR_A_DAY, longest=LONGEST + 60)


def following(looks: Looks) -> Kind:
    """Asks operators that are still at work. What they say is no failure: those count where hosts die over it."""
    return Kind(looks.follow, longest=LONGEST + 60, given_up=looks.given_up)


def recovery_of(
    gate: Gate, database: Database, clock: Clock, random: Random, notes: Notes, settle: timedelta
) -> Recovery:
    """What finds out what became of effects; see `open_timed_work`. A command does that for whoever waits for it."""
    return Recovery(gate, database, clock, notes, publishing(clock, random), settle)


def publishing(clock: Clock, random: Random) -> PublishIn:
    """Where a unit of work that the host does by itself tells what it did."""
    return lambda tx, tenant, call: LedgerTable(tx, clock, random, tenant, call)


@asynccontextmanager
async def open_timed_work(
    database: Database,
    node: Node,
    clock: Clock,
    random: Random,
    *,
    gate: Gate,
    approvals: Approvals,
    resumption: Resumption,
    notes: Notes,
    calls: Calls,
    keep: timedelta = timedelta(days=30),
    settle: timedelta = timedelta(seconds=10),
) -> AsyncGenerator[Worker, None]:
    """Do what falls due for as long as the block runs; `keep` says how long what came of effects is kept, and `settle`
    how long after a first look it is certain that one has not happened."""

    def worker_of(kinds: Mapping[str, Kind]) -> Worker:
        return Worker(database, node, clock, random, kinds, publishing(clock, random))

    recover = recovering(recovery_of(gate, database, clock, random, notes, settle))
    # The host's own work has places of its own: plugins that hang, of however many tenants, hold up none of it.
    own = {EXPIRE: expiry(approvals, resumption), FORGET: forgetting(database, clock, keep)}
    of_plugins = {RECOVER: recover, recover_at(node.name): recover}
    if gate.following is not None:
        of_plugins[FOLLOW] = following(gate.following.looks)
    with suppress(StoreUnavailable):  # a full disk does not keep a host from starting
        await gate.start.effects.look_again()
        if gate.following is not None:
            await gate.following.follow_again()
        with suppress(Busy):  # then at the next start
            now = clock.now()
            await database.write(lambda tx: queue.put(tx, DEFAULT_TENANT, FORGET, "old", due=now, now=now))
    async with open_worker(worker_of(own), node), open_worker(worker_of(of_plugins), node) as worker:
        gate.start.effects.when_in_doubt = worker.wake
        if gate.following is not None:
            gate.following.when_parked = worker.wake
            for effect, target, context in await gate.following.all_parked(KEPT_CALLS):
                calls.in_progress(effect.call, target, context, effect.started_at or effect.claimed_at)
        yield worker
