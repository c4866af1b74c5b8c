"""Calls whose operators are still at work, for the callers who wait for the outcome.

An operator that answers `in_progress` has begun and is not done. It is called again with the same key and parameters,
and with its last answer; the call is over once it answers otherwise.

A call with an effect is parked in the queue meanwhile. Its record stays `started` and belongs to no host, so it
survives every host; whichever daemon takes the job polls the operator, see `poller.py`. Other calls with the same key
wait for the same outcome. When the time is up, the outcome is unknown. A call that only reads is polled by its waiting
caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import orjson
from msgspec.structs import asdict, replace

from paddock.core.call import CallContext, OperatorProgress
from paddock.core.clock import Clock
from paddock.core.errors import Busy, Conflict, HostError, PaddockError, PluginError
from paddock.core.events.calls import EffectInProgress
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant
from paddock.core.tasks import run_to_completion
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.poll_state import MAX_POLLS, CallProgressJson, PollState, poll_delay, progress_timeout_error
from paddock.gate.effects.poller import OperatorPoller
from paddock.gate.effects.stored_context import restore_context
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.errors import in_doubt_error, result_expired_error
from paddock.gate.idempotency.records import POLL_JOB, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.gate.invocation import Invocation
from paddock.gate.ports import CallListener
from paddock.plugins.dialects.envelope import InProgress
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.rpc.errors import NO_EFFECT
from paddock.store.database import Database, Transaction

_REMOTE_CHECK_INTERVAL_S = 5.0  # seconds, for what other daemons end
_OWN_CHECK_INTERVAL_S = 0.2

_log = logging.getLogger("paddock.gate")


class LongRunningCalls:
    """Parks calls in progress, and waits for their outcomes.

    Args:
        database: Holds the idempotency records and the queue.
        clock: The time.
        node: The node under which a command takes its own call from the queue.
        poller: Polls operators.
        record_in: Writes a ledger entry of a call, within a transaction.
        wake_worker: Wakes the worker of this host; None if it has none, as a command.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        node: Node,
        poller: OperatorPoller,
        record_in: Callable[[Transaction, Invocation, Event], None],
        wake_worker: Callable[[], None] | None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._node = node
        self._record_in = record_in
        self.poller = poller
        self.waiters = poller.waiters
        self._wake_worker = wake_worker

    async def finish(self, invocation: Invocation, pending: InProgress, listener: CallListener) -> Any:
        """The result of a call whose operator is still at work. A call with an effect goes on when nobody waits.

        Raises:
            PaddockError: the call failed, its time is up, or its outcome is unknown.
        """
        listener.on_progress(not invocation.only_reads)
        if invocation.only_reads:
            return await self.poll_until_done(invocation, pending)
        await self.park(invocation, pending)
        return await self.wait_for_outcome(invocation.context.tenant, invocation.call_id)

    async def poll_until_done(self, invocation: Invocation, pending: InProgress) -> Any:
        """Poll until a call that only reads is done. Nothing of it is stored: it ends with its caller.

        Raises:
            TimedOut: its time is up.
            PaddockError: see `Supervisor.call`.
        """
        until = self._clock.monotonic() + self.poller.max_progress_s
        for asked in range(1, MAX_POLLS):
            wait = poll_delay(asked, pending.retry_after)
            if self._clock.monotonic() + wait > until:
                break
            await asyncio.sleep(wait)
            invocation.context = replace(invocation.context, so_far=OperatorProgress(asked, pending.result))
            try:
                return await self.poller.invoke(invocation)
            except InProgress as still:
                pending = still
        raise progress_timeout_error(invocation.target.key.plugin, self.poller.max_progress_s)

    async def park(self, invocation: Invocation, pending: InProgress) -> None:
        """Put a call with an effect into the queue, so that it is polled to its end even without its caller.

        Raises:
            PaddockError: it cannot be; its outcome is unknown then.
        """
        if invocation.effect is None or invocation.effect.recovery == "atomic":
            raise PluginError(
                f"{invocation.target.title} is atomic, so it must not answer in_progress",
                code="call.cannot_go_on",
                hint="the plugin's author has to declare another recovery, or to answer with the result",
                details={"plugin": invocation.target.key.plugin},
            )
        effect, now = invocation.effect, self._clock.now()
        progress = PollState.first(pending, now, self.poller.max_progress_s)
        due = now + timedelta(seconds=poll_delay(1, pending.retry_after))
        policy = invocation.context.policy

        def unit(tx: Transaction) -> None:
            known = records.find(tx, effect.effect_key)
            kept = dict((known.context if known else None) or {})
            if policy is not None:
                kept["policy"] = asdict(policy)
            records.park(tx, effect, context=progress.stored_in(kept))
            queue.enqueue(tx, effect.effect_key.tenant, POLL_JOB, effect.call, due=due, now=now)
            event = EffectInProgress(effect.effect_key.plugin, effect.effect_key.callable, progress.until)
            self._record_in(tx, invocation, event)

        async def park() -> None:
            await self._database.write(unit)
            invocation.parked = True
            self.waiters.register(invocation)
            if self._wake_worker is not None:
                self._wake_worker()

        await run_to_completion(park())

    async def wait_for_outcome(self, tenant: Tenant, call: CallId) -> Any:
        """The result of a parked call, whichever host polls it. A caller who stops waiting stops nothing.

        Raises:
            PaddockError: it failed, or its outcome is unknown.
        """
        with self.waiters.wait_for(call) as wait:
            while wait.error is None:
                effect = await self._find_record(tenant, call)
                if not effect.parked:
                    return _outcome_of(effect)
                if self._wake_worker is None:
                    await self._poll_in_process(effect)
                else:
                    await wait.wait_up_to(_REMOTE_CHECK_INTERVAL_S)
            raise wait.error

    async def progress(self, tenant: Tenant, call: CallId) -> CallProgressJson | None:
        """How a call in progress is doing, as data; None where it is over, or nothing of it is kept."""

        def unit(tx: Transaction) -> CallProgressJson | None:
            effect = records.find_by_call(tx, tenant, call)
            progress = None if effect is None or not effect.parked else PollState.from_record(effect)
            if progress is None:
                return None
            due = queue.find_due(tx, tenant, POLL_JOB, call)
            return {
                "until": progress.until,
                "asked": progress.asked,
                "result": progress.result,
                "next": None if due is None else due.isoformat(),
            }

        return await self._database.read(unit)

    async def list_parked(self, limit: int) -> list[tuple[IdempotencyRecord, CallTarget, CallContext]]:
        """The calls in progress whose plugins and callers exist."""
        found: list[tuple[IdempotencyRecord, CallTarget, CallContext]] = []
        for effect in await self._database.read(lambda tx: record_queries.list_parked(tx, limit)):
            try:
                target = self.poller.find_target(effect)
                context = await restore_context(effect, self._database, self._clock.now())
            except PaddockError as error:
                _log.warning("the call %s is in progress, and cannot be shown here: %s", effect.call, error.message)
            else:
                found.append((effect, target, context))
        return found

    async def reschedule_parked(self) -> None:
        """Enqueue parked calls that have no job any more."""
        left, now = await self._database.read(record_queries.parked_unscheduled), self._clock.now()

        def unit(tx: Transaction) -> None:
            for effect in left:
                with suppress(Busy):  # then at the next start
                    queue.enqueue(tx, effect.effect_key.tenant, POLL_JOB, effect.call, due=now, now=now)

        if left:
            await self._database.write(unit)

    async def _poll_in_process(self, effect: IdempotencyRecord) -> None:
        """Poll in the waiting caller's task: a command has no worker, and there may be no daemon."""
        work = await self._claim_job(effect)
        if work is None:
            await asyncio.sleep(_OWN_CHECK_INTERVAL_S)
            return
        try:
            again = await self.poller.run_job(work)
            now = self._clock.now()
            await self._database.write(
                lambda tx: queue.complete(tx, work) if again is None else queue.reschedule(tx, work, again.due, now=now)
            )
        except HostError as error:
            if error.error_code != "queue.stale":  # else another has it by now
                await self._release_job(work)
                raise
        except BaseException:
            await self._release_job(work)
            raise

    async def _claim_job(self, effect: IdempotencyRecord) -> queue.Job | None:
        """The poll job of a call, where it is due and free."""
        of, now = effect.effect_key, self._clock.now()
        try:
            here = await self._node.current_run()
            return await self._database.write(
                lambda tx: queue.claim_one(tx, here, of.tenant, POLL_JOB, effect.call, now=now)
            )
        except HostError as error:
            if error.error_code != "node.lost":
                raise
            return None  # this host goes on under another epoch soon

    async def _release_job(self, work: queue.Job) -> None:
        await run_to_completion(self._database.write(lambda tx: queue.release(tx, work)))

    async def _find_record(self, tenant: Tenant, call: CallId) -> IdempotencyRecord:
        effect = await self._database.read(lambda tx: records.find_by_call(tx, tenant, call))
        if effect is None:
            raise Conflict("the plugin no longer knows the call", code=records.STALE_CODE, details={"call_id": call})
        return effect


def _outcome_of(effect: IdempotencyRecord) -> Any:
    match effect.state:
        case EffectState.SUCCEEDED if effect.result is not None:
            return orjson.loads(effect.result)
        case EffectState.SUCCEEDED:
            raise result_expired_error(effect.effect_key)
        case EffectState.FAILED_NO_EFFECT:
            error = effect.error or {}
            raise PluginError(
                str(error.get("message") or "it failed, and nothing happened"),
                code=error.get("code"),
                details={"plugin": effect.effect_key.plugin, "call_id": effect.call, NO_EFFECT: True},
            )
        case _:
            raise in_doubt_error(effect)
