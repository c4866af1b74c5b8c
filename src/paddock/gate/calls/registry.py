"""Registry of calls: those in flight, those that are followed while they wait, and the most recently ended ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from paddock.approvals.model import ApprovedAction
from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, HostError, NeedsApproval, NotFound, PaddockError
from paddock.core.ids import CallId, Tenant, new_id
from paddock.core.printable import printable
from paddock.gate.admission.call_slots import CallSlots
from paddock.gate.calls.handle import CallHandle, CallJson, CallStatus, do_nothing
from paddock.gate.calls.joined_calls import JoinedCalls
from paddock.gate.calls.other_nodes import claimed_by_other_host, wait_for_remote_outcome
from paddock.gate.calls.recent_calls import MAX_ENDED_CALLS, RecentCalls
from paddock.gate.calls.tasks import CallTasks
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.gate import Gate
from paddock.gate.invocation import CallCancelled, CallRequest
from paddock.runtime.calls import AskCaller, OnEvent


class CallRegistry:
    """Holds every call in flight and the last thousand that ended, for all tenants; each tenant sees its own.

    A call that waits for a person is held only while somebody follows it; see `WaitingCalls`.
    """

    def __init__(self, gate: Gate, tasks: CallTasks, clock: Clock, random: Random) -> None:
        self._gate = gate
        self._tasks = tasks
        self._clock = clock
        self._random = random
        self._calls: dict[str, CallHandle] = {}  # that run or have ended
        # Calls that wait for a person, while somebody follows them. What waits is a row: a handle is made of it again.
        self._held: WeakValueDictionary[str, CallHandle] = WeakValueDictionary()
        self._joined = JoinedCalls()
        self._recent = RecentCalls()
        self._just_ended: list[CallHandle] = []
        self._slots = CallSlots()
        self._closed = False

    def start(self, plugin: str, callable_name: str, params: Mapping[str, Any], context: CallContext) -> CallHandle:
        """Start a call of a plugin's callable; `callable_name` may be empty if it has only one. See `start_target`.

        Raises:
            NotFound: no such plugin or callable exists.
        """
        return self.start_target(self.find_target(plugin, callable_name, context), params, context)

    def start_target(
        self, target: CallTarget, params: Mapping[str, Any], context: CallContext, *, answers: bool = True
    ) -> CallHandle:
        """Start a call in its own task and return its handle; it continues even if no caller waits for it.

        Without `answers` the caller cannot answer questions meanwhile, and all of them are declined.

        Raises:
            Busy: too many calls are in flight, or the host is shutting down.
        """
        handle = self._admit(target, context)
        self._start(handle, self._request(handle, target, params, answers=answers))
        return handle

    def start_inline(
        self, target: CallTarget, params: Mapping[str, Any], context: CallContext
    ) -> tuple[CallHandle, Coroutine[Any, Any, Any]]:
        """Start a call that runs in its caller's task; the caller has to await the returned coroutine at once.

        For a caller that waits and cannot answer questions meanwhile: a task of its own would cost as much as the gate.
        """
        handle = self._admit(target, context)
        self._slots.acquire(handle.id, handle.context.tenant)
        return handle, self._run_inline(handle, self._request(handle, target, params, answers=False))

    async def call(
        self,
        target: CallTarget,
        params: Mapping[str, Any],
        context: CallContext,
        *,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
    ) -> Any:
        """Make a call in the caller's task and return its result, which the caller may modify.

        Args:
            target: The target to call.
            params: The parameters of the call.
            context: The caller's context.
            on_event: Receives the plugin's events.
            ask: Puts the plugin's questions to a person; without it they are declined.

        Raises:
            NeedsApproval: a person has to approve it; the call continues then, and is found in this registry.
            Busy: too many calls are in flight, or the host is shutting down.
            PaddockError: see `Gate.call`.
        """
        handle = self._admit(target, context, retains_result=False)
        self._slots.acquire(handle.id, handle.context.tenant)
        events = None if on_event is None else _both(handle.add_event, on_event)
        return await self._run_inline(handle, CallRequest(target, params, context, handle.id, None, events, ask))

    async def _run_inline(self, handle: CallHandle, request: CallRequest) -> Any:
        self._tasks.borrow(handle)
        try:
            await self._run(handle, request)
        finally:
            self._tasks.give_back(handle)
        return handle.outcome()

    def _request(
        self,
        handle: CallHandle,
        target: CallTarget,
        params: Mapping[str, Any],
        *,
        answers: bool,
        approval: str | None = None,
    ) -> CallRequest:
        """Build the request for a call whose events and questions go to its handle alone."""
        ask = handle.questions.ask if answers else None
        return CallRequest(target, params, handle.context, handle.id, approval, handle.add_event, ask)

    def find_target(self, plugin: str, callable_name: str, context: CallContext) -> CallTarget:
        """Find a target by plugin and callable. See `Catalogue.find_callable`."""
        return self._gate.catalogue(context.tenant).find_callable(plugin, callable_name)

    def find_target_by_name(self, name: str, context: CallContext) -> CallTarget:
        """Find a target by its full name. See `Catalogue.find`."""
        return self._gate.catalogue(context.tenant).find(name)

    def _admit(self, target: CallTarget, context: CallContext, *, retains_result: bool = True) -> CallHandle:
        if self._closed:
            raise Busy("the host is shutting down", code="host.draining", hint="try again when it has restarted")
        self._slots.require_free(context.tenant)
        call_id = CallId(new_id("call", self._clock, self._random))
        return self._register(call_id, target, context, self._now(), retains_result=retains_result)

    def _register(
        self,
        call_id: CallId,
        target: CallTarget,
        context: CallContext,
        started_at: datetime,
        *,
        retains_result: bool = True,
    ) -> CallHandle:
        handle = CallHandle(
            call_id, target, context, started_at, on_in_progress=self._on_in_progress, retains_result=retains_result
        )
        self._calls[call_id] = handle
        return handle

    def _on_in_progress(self, handle: CallHandle) -> None:
        # An operator may work for a day, and the host does nothing for the call meanwhile.
        self._slots.release(handle.id)

    def restore_held(
        self,
        call_id: CallId,
        target: CallTarget | ApprovedAction,
        context: CallContext,
        approval_required: NeedsApproval,
        *,
        params: Mapping[str, Any],
        started_at: str,
        edits: int = 0,
    ) -> CallHandle:
        """Return a call that waits for approval, made of what is stored of it; the registry keeps no reference to it.

        `edits` is how often its request was replaced: that many events came before the one that asks.
        """
        handle = self.get(call_id)
        if handle is None:
            begun = datetime.fromisoformat(started_at)
            handle = CallHandle(call_id, target, context, begun, on_in_progress=self._on_in_progress)
            handle.begin(params)
            handle.skip_events(edits)
            handle.hold(approval_required)
            self._held[call_id] = handle
        return handle

    def restore_in_progress(self, call_id: CallId, target: CallTarget, context: CallContext, started_at: str) -> None:
        """Register and follow a call whose operator has been working on it since before this host started."""
        if call_id not in self._calls:
            handle = self._register(call_id, target, context, datetime.fromisoformat(started_at))
            handle.on_progress()
            self._tasks.start_soon(self._follow_in_progress, handle)

    def resume_approved(
        self, handle: CallHandle, context: CallContext, target: CallTarget, params: Mapping[str, Any], approval: str
    ) -> None:
        """Run a call that waited for approval and is approved now, in a context with the caller's current rights.

        While the host shuts down the call keeps waiting: this host would not wait for its end, and the next host runs
        it.
        """
        if self._closed:
            return
        handle.resume(context, target)
        self._keep(handle)
        self._start(handle, self._request(handle, target, params, answers=True, approval=approval))

    def follow_remote(self, handle: CallHandle) -> None:
        """Follow a call that waited here and that another host runs: it gets the outcome from there."""
        if handle.approval_required is not None:
            handle.resume(handle.context)
            self._keep(handle)
            handle.on_progress()
            self._tasks.start_soon(self._follow_remote, handle)

    def resume_joined(self, handle: CallHandle, context: CallContext) -> None:
        """Run a call that waited for the approval of another call, which was given: it gets that call's result.

        See `resume_approved`.
        """
        if handle.approval_required is None or self._closed:
            return
        joined = self._joined.pop(handle.id)
        if joined is not None:
            handle.resume(context)
            self._keep(handle)
            request, answers = joined.request, joined.request.ask is not None
            self._start(handle, self._request(handle, request.target, request.payload, answers=answers))

    def abandon(
        self,
        handle: CallHandle,
        error: PaddockError,
        status: CallStatus = "failed",
    ) -> None:
        """End a call that waits for approval and will not run. Does nothing if it no longer waits."""
        if handle.approval_required is None:
            return
        handle.end(status, self._now(), error=error)
        self._keep(handle)
        self._retain(handle)

    def _keep(self, handle: CallHandle) -> None:
        """Keep a call that waited and does not any more."""
        self._held.pop(handle.id, None)
        self._calls[handle.id] = handle

    def _let_go(self, handle: CallHandle, request: CallRequest) -> None:
        """Let go of a call that waits for a person; of one that waits for another call's, which has no row, at last."""
        self._calls.pop(handle.id, None)
        self._held[handle.id] = handle
        if handle.approval_call_id != handle.id:
            oldest = self._joined.add(handle, request)
            if oldest is not None:
                hint = "repeat it with the same key for the result"
                self.abandon(oldest, CallCancelled("too many calls repeat one that waits", hint=hint), "cancelled")

    def _start(self, handle: CallHandle, request: CallRequest) -> None:
        self._slots.acquire(handle.id, handle.context.tenant)
        self._tasks.start_soon(self._run, handle, request)

    @property
    def is_shutting_down(self) -> bool:
        """Whether new calls are refused. A call that is interrupted from now on was not cancelled by a caller."""
        return self._closed

    def get(self, call_id: str) -> CallHandle | None:
        """Return a call of any tenant if this host has it; see `WaitingCalls.get` for those that wait for a person."""
        return self._calls.get(call_id) or self._held.get(call_id)

    async def describe(self, handle: CallHandle) -> CallJson:
        """Serialize a call; for one in progress also include the operator's last report and the next poll time."""
        record = handle.to_json()
        if handle.status == "in_progress":
            record["in_progress"] = await self._gate.long_running.progress(handle.context.tenant, handle.id)
        return record

    @property
    def running_count(self) -> int:
        """Number of calls that hold a slot."""
        return len(self._slots)

    def list_held(self) -> list[CallHandle]:
        """List the calls that wait for approval and that somebody follows here."""
        return [handle for handle in self._held.values() if handle.approval_required is not None]

    def list_joined(self, call: str) -> list[CallHandle]:
        """List the calls that wait for the approval of this one, since they have the same key."""
        return self._joined.list_of(call)

    def list_current(self, tenant: Tenant) -> list[CallHandle]:
        """List the calls of a tenant that run, and of those that wait the ones that somebody follows here."""
        return [handle for handle in self._all() if handle.context.tenant == tenant and not handle.is_over]

    def _all(self) -> list[CallHandle]:
        return [*self._calls.values(), *self._held.values()]

    def find(self, call_id: str, tenant: Tenant, is_visible: Callable[[CallHandle], bool] | None = None) -> CallHandle:
        """Find a tenant's call by its id; `is_visible` filters for callers that may not see all calls.

        Raises:
            NotFound: there is none that is visible, or it was evicted, or it waits for a person and nobody follows it;
                see `WaitingCalls.find`.
        """
        handle = self.get(call_id)
        if handle is None or handle.context.tenant != tenant or not (is_visible is None or is_visible(handle)):
            shown_id = printable(call_id, 64)  # the id comes from a URL and may be any text

            raise NotFound(
                f"there is no call {shown_id!r}",
                code="call.not_found",
                hint=f"the daemon keeps the last {MAX_ENDED_CALLS} calls while it runs; the ledger has older ones",
                action=Action.of("call.explain", call=shown_id, tenant=tenant),
            )
        return handle

    def recent(
        self, limit: int, tenant: Tenant, is_visible: Callable[[CallHandle], bool] | None = None
    ) -> list[CallHandle]:
        """List the latest calls of a tenant, newest first; see `find`."""
        visible = [
            handle
            for handle in self._all()
            if handle.context.tenant == tenant and (not is_visible or is_visible(handle))
        ]
        return sorted(visible, key=lambda handle: handle.started_at, reverse=True)[:limit]

    async def drain(self, seconds: float) -> None:
        """Refuse new calls, wait this long for the running ones, then cancel them."""
        self._closed = True
        self._gate.starter.effects.outcomes.begin_shutdown()
        waiting = [handle for handle in self._calls.values() if handle.status == "running"]
        for handle in self._calls.values():
            if handle.status == "in_progress":
                handle.cancel()  # ends the wait of its caller; the next host continues the call
        try:
            async with asyncio.timeout(seconds):
                for handle in waiting:
                    await handle.wait_ended()
        except TimeoutError:
            for handle in waiting:
                handle.cancel()

    async def _run(self, handle: CallHandle, request: CallRequest) -> None:
        handle.begin(request.payload)
        work = self._gate.call(request, handle)
        if request.approval is not None:
            work = self._run_or_follow_remote(handle, work)
        await self._supervise(handle, work, request.approval)
        if handle.approval_required is not None:
            self._let_go(handle, request)

    async def _run_or_follow_remote(self, handle: CallHandle, local_call: Coroutine[Any, Any, Any]) -> Any:
        """Run an approved call, or follow it elsewhere: an approval is used by one host, and another may be faster."""
        try:
            return await local_call
        except PaddockError as error:
            if not claimed_by_other_host(error):
                raise
            handle.on_progress()
            return await wait_for_remote_outcome(handle, self._gate.starter.database, self._gate.long_running)

    async def _follow_remote(self, handle: CallHandle) -> None:
        remote_call = wait_for_remote_outcome(handle, self._gate.starter.database, self._gate.long_running)
        await self._supervise(handle, remote_call, None)

    async def _follow_in_progress(self, handle: CallHandle) -> None:
        outcome = self._gate.long_running.wait_for_outcome(handle.context.tenant, handle.id)
        await self._supervise(handle, outcome, None)

    async def _supervise(self, handle: CallHandle, work: Coroutine[Any, Any, Any], approval: str | None) -> None:
        """Run the work of a call and settle its handle, also when the call is cancelled or the host shuts down."""
        try:
            result, error = await _attempt(handle, work)
            await self._settle(handle, result, error, approval)
        finally:
            self._slots.release(handle.id)
            if handle.status in ("running", "in_progress"):  # this task is being cancelled
                handle.end("cancelled", self._now(), error=handle.shutdown_error())
            if handle.status != "pending_approval":
                self._retain_soon(handle)

    async def _settle(self, handle: CallHandle, result: Any, error: BaseException | None, approval: str | None) -> None:
        # A host that shuts down abandons its calls and does not cancel them: a call that waits for approval, or is
        # approved, continues on the next host.
        cancelled = handle.cancel_requested and not self._closed
        needs_approval = isinstance(error, NeedsApproval)
        if cancelled and (approval is not None or needs_approval):
            await self._gate.starter.withdraw(handle.context.tenant, handle.id)
        if isinstance(error, asyncio.CancelledError) or (cancelled and needs_approval):
            reason = CallCancelled("the call was cancelled") if cancelled else handle.shutdown_error()
            handle.end("cancelled", self._now(), error=reason)
        elif error is None:
            handle.end("succeeded", self._now(), result=result)
        elif isinstance(error, NeedsApproval):
            handle.hold(error)
        elif isinstance(error, PaddockError):
            handle.end("failed", self._now(), error=error)
        else:
            handle.end("failed", self._now(), error=HostError("the host failed", code="internal"))
            asyncio.get_running_loop().call_exception_handler({"message": "a call failed", "exception": error})

    def _retain_soon(self, handle: CallHandle) -> None:
        """Schedule the retention of an ended call, after its caller has the result."""
        if not self._just_ended:
            asyncio.get_running_loop().call_soon(self._retain_all)
        self._just_ended.append(handle)

    def _retain_all(self) -> None:
        ended, self._just_ended = self._just_ended, []
        for handle in ended:
            self._retain(handle)

    def _retain(self, handle: CallHandle) -> None:
        self._joined.pop(handle.id)
        for evicted in self._recent.add(handle.context.tenant, handle.id, handle.size):
            del self._calls[evicted]

    def _now(self) -> datetime:
        return self._clock.now()


async def _attempt(handle: CallHandle, work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Run the work of a call in this task, where it can be cancelled; returns its result or error.

    Raises:
        CancelledError: this task itself is being cancelled.
    """
    task = asyncio.current_task()
    assert task is not None
    cancellations = task.cancelling()  # a caller may make a call while its task is being cancelled
    if handle.cancel_requested:  # before any work was done
        work.close()
        return None, asyncio.CancelledError()
    result, error = None, None
    handle.set_canceller(task.cancel)
    try:
        result = await work
    except (asyncio.CancelledError, Exception) as stopped:
        error = stopped
    handle.set_canceller(do_nothing)  # there is nothing left to stop
    if handle.cancel_requested:
        task.uncancel()  # the cancellation was meant for the call, not for this task
    if task.cancelling() > cancellations:
        raise asyncio.CancelledError
    return result, error


def _both(first: OnEvent, second: OnEvent) -> OnEvent:
    def forward(event: Mapping[str, Any]) -> None:
        first(event)
        second(event)

    return forward
