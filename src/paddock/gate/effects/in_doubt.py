"""Effects in doubt: marking them, and enqueueing their recovery where the plugin declares how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import Any, Final, TypeAlias

from msgspec import Struct

from paddock.core.clock import Clock
from paddock.core.errors import Busy
from paddock.core.events.calls import EffectInDoubt
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.manual_resolution import require_in_doubt
from paddock.gate.idempotency.records import RECOVER_JOB, IdempotencyRecord
from paddock.queue import queue
from paddock.queue.leases import NodeRun
from paddock.store.database import Database, Transaction

HOST_LOST_MESSAGE: Final = "the host that made it is gone"
HOST_LOST_ERROR: Final[Mapping[str, Any]] = {"code": "host.lost", "message": HOST_LOST_MESSAGE}

RecordAll: TypeAlias = Callable[[Transaction, Sequence[tuple[Tenant, CallId, Event]]], None]


class InDoubtEffects(Struct, frozen=True):
    """Marks effects in doubt and enqueues their recovery.

    Args:
        database: Holds the idempotency records and the queue.
        clock: The time.
        record_all: Writes the ledger entries of many calls, within a transaction.
        wake_worker: Called when the recovery of an effect was enqueued.
    """

    database: Database
    clock: Clock
    record_all: RecordAll
    wake_worker: Callable[[], None]

    def mark(
        self, tx: Transaction, effect: IdempotencyRecord, error: Mapping[str, Any], delay: timedelta = timedelta()
    ) -> None:
        """Mark an effect in doubt, and enqueue its recovery after a delay. The caller writes the ledger entry.

        Raises:
            HostError: it is not in progress.
        """
        records.mark_in_doubt(tx, effect, error=error)
        if effect.recovery != "none":
            now, job_type = self.clock.now(), recovery_job_type(effect)
            with suppress(Busy):  # the queue is full: the next start enqueues it, or a person does
                queue.enqueue(tx, effect.effect_key.tenant, job_type, effect.call, due=now + delay, now=now)

    def mark_and_record(self, tx: Transaction, effect: IdempotencyRecord, error: Mapping[str, Any]) -> None:
        """Mark an effect in doubt that no host works on any more, and write the ledger entry. See `mark`."""
        self.mark(tx, effect, error)
        self.record_all(tx, [_entry(effect, str(error["message"]))])

    def mark_abandoned(self, tx: Transaction, holder: NodeRun) -> None:
        """Mark the effects in doubt that an ended run of a host had started."""
        lost = records.mark_in_doubt_for(tx, holder, error=HOST_LOST_ERROR)
        self._enqueue_all(tx, [effect for effect in lost if effect.recovery != "none"])
        self.record_all(tx, [_entry(effect, HOST_LOST_MESSAGE) for effect in lost])

    async def schedule_recoveries(self) -> None:
        """Enqueue the recovery of effects in doubt again, where it was given up or the queue was full."""
        while left := await self.database.read(record_queries.in_doubt_unscheduled):  # some at a time
            if not await self.database.write(lambda tx, left=left: self._enqueue_all(tx, left)):
                return  # the queue is full again

    async def recover_now(self, tenant: Tenant, call: str) -> bool:
        """Recover an effect in doubt at once; False where only a person can resolve it, or a worker is at it already.

        Raises:
            NotFound: there is no such effect.
            Conflict: it is not in doubt.
            Busy: `queue.full`, too many jobs wait.
        """

        def unit(tx: Transaction) -> bool:
            effect, now = require_in_doubt(tx, tenant, call), self.clock.now()
            if effect.recovery == "none":
                return False
            kind = recovery_job_type(effect)
            return queue.enqueue(tx, tenant, kind, call, due=now, now=now) or queue.expedite(
                tx, tenant, kind, call, now=now
            )

        begun = await self.database.write(unit)
        if begun:
            self.wake_worker()
        return begun

    def _enqueue_all(self, tx: Transaction, effects: Sequence[IdempotencyRecord]) -> int:
        """Enqueue the recovery of these; returns for how many the queue had room."""
        now, by_tenant = self.clock.now(), sorted(effects, key=_tenant)
        return sum(
            queue.enqueue_many(
                tx, tenant, [(recovery_job_type(effect), effect.call) for effect in some], due=now, now=now
            )
            for tenant, some in groupby(by_tenant, key=_tenant)
        )


def recovery_job_type(effect: IdempotencyRecord) -> str:
    """The job type that recovers an effect. An atomic one is recovered by the node that has its plugin's files."""
    return recovery_job_type_at(effect.holder.node) if effect.recovery == "atomic" else RECOVER_JOB


def recovery_job_type_at(node: str) -> str:
    """The recovery job type that only this node runs."""
    return f"{RECOVER_JOB}:{node}"


def _tenant(effect: IdempotencyRecord) -> Tenant:
    return effect.effect_key.tenant


def _entry(effect: IdempotencyRecord, reason: str) -> tuple[Tenant, CallId, Event]:
    event = EffectInDoubt(effect.effect_key.plugin, effect.effect_key.callable, reason, effect.recovery)
    return effect.effect_key.tenant, effect.call, event
