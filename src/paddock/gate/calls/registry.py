"""The calls that are under way, those that wait for a person, and those that ended a while ago."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from paddock.core.call import CallContext
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, HostError, NeedsApproval, NotFound, PaddockError
from paddock.core.ids import CallId, Tenant, new_id
from paddock.core.printable import printable
from paddock.gate.calls.handle import CallHandle, CallStatus, do_nothing
from paddock.gate.calls.remote import claimed_by_other_host, wait_for_remote_outcome
from paddock.gate.calls.tasks import CallTasks
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.gate import Gate
from paddock.gate.invocation import CallCancelled, CallRequest
from paddock.plugins.manage.repair_text import tenant_option
from paddock.runtime.calls import AskCaller, OnEvent

MAX_ENDED_CALLS = 1_000
MAX_ENDED_BYTES = 64 * 1024 * 1024  # of results and events of calls that ended
MAX_RUNNING_CALLS = 512


class CallRegistry:
    """Every call that is under way, and the last thousand that ended: of all tenants, and each sees its own."""

    def __init__(self, gate: Gate, tasks: CallTasks, clock: Clock, random: Random) -> None:
        self._gate = gate
        self._tasks = tasks
        self._clock = clock
        self._random = random
        self._calls: dict[str, CallHandle] = {}
        # By tenant, in the order in which they ended, with their sizes.
        self._ended: dict[Tenant, deque[tuple[CallId, int]]] = {}
        self._ended_bytes_for: Counter[Tenant] = Counter()
        self._ended_bytes = 0
        self._ended_count = 0
        self._just_ended: list[CallHandle] = []
        self._running = 0
        self._running_for: Counter[Tenant] = Counter()
        self._closed = False

    def start(
        self,
        plugin: str,
        callable_name: str,
        params: Mapping[str, Any],
        context: CallContext,
        *,
        answers: bool = True,
    ) -> CallHandle:
        """Start a call and give it a name; it goes on when nobody waits for it.

        Args:
            plugin: The plugin's name or an alias.
            callable_name: May be empty where the plugin has only one callable.
            params: What it is called with.
            context: Who calls.
            answers: Whether they can be asked something meanwhile; all questions are declined where not.

        Raises:
            NotFound: nothing goes by these names.
            Busy: too many calls are under way, or the host is going down.
        """
        return self.start_target(self.find_target(plugin, callable_name, context), params, context, answers=answers)

    def start_by_name(
        self, name: str, params: Mapping[str, Any], context: CallContext, *, answers: bool = True
    ) -> CallHandle:
        """The same by the full name, `<plugin>.<callable>`. See `Catalogue.find`."""
        return self.start_target(self.find_target_by_name(name, context), params, context, answers=answers)

    def start_target(
        self, target: CallTarget, params: Mapping[str, Any], context: CallContext, *, answers: bool = True
    ) -> CallHandle:
        """Start a call to a target of the catalogue. See `start`."""
        live = self._admit(target, context)
        self._start(live, self._request(live, target, params, answers=answers))
        return live

    def start_inline(
        self, target: CallTarget, params: Mapping[str, Any], context: CallContext
    ) -> tuple[CallHandle, Coroutine[Any, Any, Any]]:
        """Start a call that runs in its caller's task, while they await the coroutine, which must be at once.

        For a caller who waits and cannot be asked anything meanwhile: a task would cost as much as the gate does.
        """
        live = self._admit(target, context)
        self._acquire_slot(live)
        return live, self._run_inline(live, self._request(live, target, params, answers=False))

    async def call(
        self,
        target: CallTarget,
        params: Mapping[str, Any],
        context: CallContext,
        *,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
    ) -> Any:
        """Make a call in the caller's task and return its result, which they may change.

        Args:
            target: What is called.
            params: What it is called with.
            context: Who calls.
            on_event: Receives the plugin's events.
            ask: Puts the plugin's questions to a person; without it they are declined.

        Raises:
            NeedsApproval: a person has to approve it; it goes on then, and is found here.
            Busy: too many calls are in flight, or the host is shutting down.
            PaddockError: see `Gate.call`.
        """
        live = self._admit(target, context)
        live.retains_result = False
        self._acquire_slot(live)
        events = None if on_event is None else _both(live.add_event, on_event)
        return await self._run_inline(live, CallRequest(target, params, context, live.id, None, events, ask))

    async def _run_inline(self, live: CallHandle, request: CallRequest) -> Any:
        self._tasks.borrow(live)
        try:
            await self._run(live, request)
        finally:
            self._tasks.give_back(live)
        return live.outcome()

    def _request(
        self,
        live: CallHandle,
        target: CallTarget,
        params: Mapping[str, Any],
        *,
        answers: bool,
        approval: str | None = None,
    ) -> CallRequest:
        """The request for a call that is followed by its handle alone."""
        ask = live.questions.ask if answers else None
        return CallRequest(target, params, live.context, live.id, approval, live.add_event, ask)

    def find_target(self, plugin: str, callable_name: str, context: CallContext) -> CallTarget:
        """What is called by these names. See `Catalogue.find_in`."""
        return self._gate.catalogue(context.tenant).find_callable(plugin, callable_name)

    def find_target_by_name(self, name: str, context: CallContext) -> CallTarget:
        """The same by the full name. See `Catalogue.find`."""
        return self._gate.catalogue(context.tenant).find(name)

    def _admit(self, target: CallTarget, context: CallContext) -> CallHandle:
        if self._closed:
            raise Busy("the host is shutting down", code="host.draining", hint="try again when it is back")
        # As with the seats of plugins: nobody may have more than they leave to all the others.
        if self._running_for[context.tenant] >= MAX_RUNNING_CALLS - self._running:
            raise Busy(f"{self._running} calls are under way already", hint="try again when some of them are done")
        call_id = CallId(new_id("call", self._clock, self._random))
        live = self._calls[call_id] = CallHandle(call_id, target, context, self._now())
        return live

    def restore_held(
        self, call_id: CallId, target: CallTarget, context: CallContext, held: NeedsApproval
    ) -> CallHandle:
        """Know a call that waits for a person, and was made before this host came up."""
        live = self._calls.get(call_id)
        if live is None:
            live = self._calls[call_id] = CallHandle(call_id, target, context, self._now())
            live.hold(held)
        return live

    def restore_in_progress(self, call_id: CallId, target: CallTarget, context: CallContext, started_at: str) -> None:
        """Know a call whose operator is at work on it since before this host came up."""
        if call_id not in self._calls:
            live = self._calls[call_id] = CallHandle(call_id, target, context, datetime.fromisoformat(started_at))
            live.on_progress()
            self._tasks.start_soon(self._follow_in_progress, live)

    def resume_approved(
        self, live: CallHandle, context: CallContext, target: CallTarget, params: Mapping[str, Any], approval: str
    ) -> None:
        """Make a call that waited for a person and is approved now, in a context with the caller's present rights.

        While the host shuts down the call goes on waiting: nobody would wait for its end here, and the next host makes
        it.
        """
        if self._closed:
            return
        live.resume(context)
        self._start(live, self._request(live, target, params, answers=True, approval=approval))

    def follow_remote(self, live: CallHandle) -> None:
        """Another host makes a call that waited here: it gets what comes of it there."""
        if live.approval_required is not None:
            live.resume(live.context)
            live.on_progress()
            self._tasks.start_soon(self._follow_remote, live)

    def resume_joined(self, live: CallHandle, context: CallContext) -> None:
        """Make a call that waited for another one's approval, which was given: it gets that call's result.

        See `resume_approved`.
        """
        if live.approval_required is not None and live.resume_joined is not None and not self._closed:
            live.resume(context)
            live.resume_joined()

    def abandon(self, live: CallHandle, error: PaddockError, status: CallStatus = "failed") -> None:
        """End a call that waits for a person and will not be made. Harmless when it does not wait any more."""
        if live.approval_required is None:
            return
        live.end(status, self._now(), error=error)
        self._retain(live)

    def _start(self, live: CallHandle, request: CallRequest) -> None:
        self._acquire_slot(live)
        self._tasks.start_soon(self._run, live, request)

    @property
    def is_shutting_down(self) -> bool:
        """Whether no calls are taken any more. One that is cut off from here on was not cancelled by anybody."""
        return self._closed

    def get(self, call_id: str) -> CallHandle | None:
        """A call of whichever tenant, where this host knows it."""
        return self._calls.get(call_id)

    @property
    def running_count(self) -> int:
        """How many are under way."""
        return self._running

    @property
    def held_count(self) -> int:
        """How many wait for a person."""
        return len(self.list_held())

    def list_held(self) -> list[CallHandle]:
        """Those that wait for a person."""
        return [live for live in self._calls.values() if live.approval_required is not None]

    def find(self, call_id: str, tenant: Tenant, shown: Callable[[CallHandle], bool] | None = None) -> CallHandle:
        """A call of a tenant by its id; only one that is `shown` to whoever asks, where they do not see all.

        Raises:
            NotFound: there is none, or it was forgotten.
        """
        live = self._calls.get(call_id)
        if live is None or live.context.tenant != tenant or not (shown is None or shown(live)):
            named = printable(call_id, 64)  # whatever stands in an address
            own = f"{named}{tenant_option(tenant)}"
            raise NotFound(
                f"no call {named!r} is known",
                code="call.not_found",
                hint=f"the last {MAX_ENDED_CALLS} calls are kept while the daemon runs; an older one:"
                f" paddock explain {own}, what came of one with an effect: paddock run doubt show {own}",
            )
        return live

    def recent(
        self, most: int, tenant: Tenant, shown: Callable[[CallHandle], bool] | None = None
    ) -> list[dict[str, Any]]:
        """The last calls of a tenant, newest first, each as data without its result; see `find`."""
        theirs = [live for live in self._calls.values() if live.context.tenant == tenant and (not shown or shown(live))]
        newest = sorted(theirs, key=lambda live: live.started_at, reverse=True)[:most]
        return [live.summary() for live in newest]

    async def drain(self, seconds: float) -> None:
        """Take no new calls, and give those under way this long."""
        self._closed = True
        waiting = [live for live in self._calls.values() if live.status == "running"]
        for live in self._calls.values():
            if live.status == "in_progress":
                live.cancel()  # whoever waits is told; the next host goes on with it
        try:
            async with asyncio.timeout(seconds):
                for live in waiting:
                    await live.wait_ended()
        except TimeoutError:
            for live in waiting:
                live.cancel()

    async def _run(self, live: CallHandle, request: CallRequest) -> None:
        # An operator may be at work for a day, and the host does nothing for the call meanwhile.
        live.on_in_progress = partial(self._release_slot, live)
        work = self._gate.call(request, live)
        if request.approval is not None:
            work = self._run_or_follow_remote(live, work)
        await self._supervise(live, work, request.approval)
        if live.approval_call_id not in (None, live.id):
            live.resume_joined = partial(self._restart, live, request)

    def _restart(self, live: CallHandle, request: CallRequest) -> None:
        answers = request.ask is not None
        self._start(live, self._request(live, request.target, request.payload, answers=answers))

    async def _run_or_follow_remote(self, live: CallHandle, made_here: Coroutine[Any, Any, Any]) -> Any:
        """What comes of a call with a person's yes, which is good at one host: another may have been quicker."""
        try:
            return await made_here
        except PaddockError as error:
            if self._gate.long_running is None or not claimed_by_other_host(error):
                raise
            live.on_progress()
            return await wait_for_remote_outcome(live, self._gate.starter.database, self._gate.long_running)

    async def _follow_remote(self, live: CallHandle) -> None:
        if self._gate.long_running is not None:
            made = wait_for_remote_outcome(live, self._gate.starter.database, self._gate.long_running)
            await self._supervise(live, made, None)

    async def _follow_in_progress(self, live: CallHandle) -> None:
        following = self._gate.long_running
        if following is not None:
            await self._supervise(live, following.wait_for_outcome(live.context.tenant, live.id), None)

    async def _supervise(self, live: CallHandle, work: Coroutine[Any, Any, Any], approval: str | None) -> None:
        """Do the work on a call and see what comes of it, until somebody wants its end."""
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()  # a caller may make a call while it is being cancelled
        result: Any = None
        error: BaseException | None = None
        try:
            if live.cancel_requested:  # before anything was done for it
                work.close()
                error = asyncio.CancelledError()
            else:
                live.set_canceller(task.cancel)
                try:
                    result = await work
                except (asyncio.CancelledError, Exception) as stopped:
                    error = stopped
                live.set_canceller(do_nothing)  # there is nothing left to stop
                if live.cancel_requested:
                    task.uncancel()  # it was the call that was to end
                if task.cancelling() > cancellations:
                    raise asyncio.CancelledError  # and here we ourselves
            # A host that goes down gives its calls up and does not cancel them: what waits, or has its yes, goes on at
            # the next one.
            unwanted = live.cancel_requested and not self._closed
            waits = isinstance(error, NeedsApproval)
            if unwanted and (approval is not None or waits):
                await self._gate.starter.withdraw(live.context.tenant, live.id)
            if isinstance(error, asyncio.CancelledError) or (unwanted and waits):
                why = CallCancelled("the call was cancelled") if unwanted else live.shutdown_error()
                live.end("cancelled", self._now(), error=why)
            elif error is None:
                live.end("succeeded", self._now(), result=result)
            elif isinstance(error, NeedsApproval):
                live.hold(error)
            elif isinstance(error, PaddockError):
                live.end("failed", self._now(), error=error)
            else:
                live.end("failed", self._now(), error=HostError("the host failed", code="internal"))
                asyncio.get_running_loop().call_exception_handler({"message": "a call failed", "exception": error})
        finally:
            self._release_slot(live)
            if live.status in ("running", "in_progress"):  # we are being cancelled ourselves
                live.end("cancelled", self._now(), error=live.shutdown_error())
            if live.status != "pending_approval":
                self._retain_soon(live)

    def _acquire_slot(self, live: CallHandle) -> None:
        live.has_slot = True
        self._running += 1
        self._running_for[live.context.tenant] += 1

    def _release_slot(self, live: CallHandle) -> None:
        if live.has_slot:
            live.has_slot = False
            self._running -= 1
            self._running_for[live.context.tenant] -= 1

    def _retain_soon(self, live: CallHandle) -> None:
        """Count a call among those that ended, once its caller has the result."""
        if not self._just_ended:
            asyncio.get_running_loop().call_soon(self._retain_all)
        self._just_ended.append(live)

    def _retain_all(self) -> None:
        ended, self._just_ended = self._just_ended, []
        for live in ended:
            self._retain(live)

    def _retain(self, live: CallHandle) -> None:
        tenant, size = live.context.tenant, live.size
        self._ended.setdefault(tenant, deque()).append((live.id, size))
        self._ended_bytes_for[tenant] += size
        self._ended_bytes += size
        self._ended_count += 1
        # The tenant with most gives way, so that none can push out what became of another's calls.
        while self._ended_count > MAX_ENDED_CALLS:
            alone = len(self._ended) == 1
            self._evict_oldest(tenant if alone else max(self._ended, key=lambda one: len(self._ended[one])))
        while self._ended_bytes > MAX_ENDED_BYTES:
            older = [one for one, kept in self._ended.items() if len(kept) > (one == tenant)]
            if not older:
                break  # this one alone is too much, and stays for its caller
            self._evict_oldest(max(older, key=lambda one: self._ended_bytes_for[one]))

    def _evict_oldest(self, tenant: Tenant) -> None:
        """Let go of a tenant's call that ended first."""
        oldest, size = self._ended[tenant].popleft()
        self._ended_bytes_for[tenant] -= size
        self._ended_bytes -= size
        if not self._ended[tenant]:
            del self._ended[tenant], self._ended_bytes_for[tenant]
        del self._calls[oldest]
        self._ended_count -= 1

    def _now(self) -> datetime:
        return self._clock.now()


def _both(first: OnEvent, second: OnEvent) -> OnEvent:
    def forward(event: Mapping[str, Any]) -> None:
        first(event)
        second(event)

    return forward
