"""The calls that are under way, those that wait for a person, and those that ended a while ago."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from paddock.core.call import CallContext
from paddock.core.clock import Clock, Random
from paddock.core.errors import Busy, HostError, NeedsApproval, NotFound, PaddockError
from paddock.core.ids import CallId, Tenant, new_id
from paddock.core.printable import printable
from paddock.core.time_text import time_text
from paddock.gate.call_tasks import CallTasks
from paddock.gate.catalogue import Target
from paddock.gate.course import CallCancelled
from paddock.gate.gate import Gate
from paddock.gate.live_call import CallStatus, LiveCall, nothing
from paddock.gate.made_elsewhere import end_elsewhere, other_was_first
from paddock.plugins.mending import for_tenant

KEPT_CALLS = 1_000
KEPT_BYTES = 64 * 1024 * 1024  # of results and events of calls that ended
MOST_RUNNING = 512


class Calls:
    """Every call that is under way, and the last thousand that ended: of all tenants, and each sees its own."""

    def __init__(self, gate: Gate, tasks: CallTasks, clock: Clock, random: Random) -> None:
        self._gate = gate
        self._tasks = tasks
        self._clock = clock
        self._random = random
        self._calls: dict[str, LiveCall] = {}
        # By tenant, in the order in which they ended, with their sizes.
        self._ended: dict[Tenant, deque[tuple[CallId, int]]] = {}
        self._ended_bytes: Counter[Tenant] = Counter()
        self._kept = 0  # how many of them
        self._running = 0
        self._running_for: Counter[Tenant] = Counter()
        self._closed = False

    def begin(
        self,
        plugin: str,
        callable_name: str,
        params: Mapping[str, Any],
        context: CallContext,
        *,
        answers: bool = True,
    ) -> LiveCall:
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
        return self.begin_at(self.target(plugin, callable_name, context), params, context, answers=answers)

    def begin_named(
        self, name: str, params: Mapping[str, Any], context: CallContext, *, answers: bool = True
    ) -> LiveCall:
        """The same by the full name, `<plugin>.<callable>`. See `Catalogue.find`."""
        return self.begin_at(self.target_named(name, context), params, context, answers=answers)

    def begin_at(
        self, target: Target, params: Mapping[str, Any], context: CallContext, *, answers: bool = True
    ) -> LiveCall:
        """The same for a target of the catalogue."""
        live = self._admitted(target, context)
        self._begin(live, target, params, answers=answers)
        return live

    def admit_at(
        self, target: Target, params: Mapping[str, Any], context: CallContext
    ) -> tuple[LiveCall, Coroutine[Any, Any, Any]]:
        """The same for a caller who waits for it and can be asked nothing meanwhile: it is made while they await what
        is given with it, which must be at once. A task for it would cost as much as all that the door does.
        """
        live = self._admitted(target, context)
        self._seat(live)
        return live, self._made(live, target, params)

    async def _made(self, live: LiveCall, target: Target, params: Mapping[str, Any]) -> Any:
        with self._tasks.lent(live):
            await self._run(live, target, params, False, None)
        return live.outcome()

    def target(self, plugin: str, callable_name: str, context: CallContext) -> Target:
        """What is called by these names. See `Catalogue.find_in`."""
        return self._gate.catalogue(context.tenant).find_in(plugin, callable_name)

    def target_named(self, name: str, context: CallContext) -> Target:
        """The same by the full name. See `Catalogue.find`."""
        return self._gate.catalogue(context.tenant).find(name)

    def _admitted(self, target: Target, context: CallContext) -> LiveCall:
        if self._closed:
            raise Busy("the host is shutting down", code="host.draining", hint="try again when it is back")
        # As with the seats of plugins: nobody may have more than they leave to all the others.
        if self._running_for[context.tenant] >= MOST_RUNNING - self._running:
            raise Busy(f"{self._running} calls are under way already", hint="try again when some of them are done")
        call_id = CallId(new_id("call", self._clock, self._random))
        live = self._calls[call_id] = LiveCall(call_id, target, context, self._now())
        return live

    def held(self, call_id: CallId, target: Target, context: CallContext, held: NeedsApproval) -> LiveCall:
        """Know a call that waits for a person, and was made before this host came up."""
        live = self._calls.get(call_id)
        if live is None:
            live = self._calls[call_id] = LiveCall(call_id, target, context, self._now())
            live.hold(held)
        return live

    def in_progress(self, call_id: CallId, target: Target, context: CallContext, started_at: str) -> None:
        """Know a call whose operator is at work on it since before this host came up."""
        if call_id not in self._calls:
            live = self._calls[call_id] = LiveCall(call_id, target, context, started_at)
            live.progress()
            self._tasks.start_soon(self._follow, live)

    def go_on(self, live: LiveCall, target: Target, params: Mapping[str, Any], approval: str) -> None:
        """Make a call that waited for a person, whose yes it has now. Whoever made it may be gone.

        Where the host is going down it goes on waiting: nobody would wait for its end here, and the next host makes it.
        """
        if self._closed:
            return
        live.go_on()
        self._begin(live, target, params, approval=approval, answers=True)

    def made_elsewhere(self, live: LiveCall) -> None:
        """Another host makes a call that waited here: it gets what comes of it there."""
        if live.held is not None:
            live.go_on()
            live.progress()
            self._tasks.start_soon(self._watch_elsewhere, live)

    def join(self, live: LiveCall) -> None:
        """Make a call that waited for another one's request, which has its yes: it gets what becomes of that one. The
        same where the host is going down."""
        if live.held is not None and live.once_more is not None and not self._closed:
            live.go_on()
            live.once_more()

    def give_up(self, live: LiveCall, error: PaddockError, status: CallStatus = "failed") -> None:
        """End a call that waits for a person and will not be made. Harmless when it does not wait any more."""
        if live.held is None:
            return
        live.end(status, self._now(), error=error)
        self._keep(live)

    def _begin(
        self, live: LiveCall, target: Target, params: Mapping[str, Any], *, answers: bool, approval: str | None = None
    ) -> None:
        self._seat(live)
        self._tasks.start_soon(self._run, live, target, params, answers, approval)

    @property
    def going_down(self) -> bool:
        """Whether no calls are taken any more. One that is cut off from here on was not cancelled by anybody."""
        return self._closed

    def known(self, call_id: str) -> LiveCall | None:
        """A call of whichever tenant, where this host knows it."""
        return self._calls.get(call_id)

    @property
    def running(self) -> int:
        """How many are under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many wait for a person."""
        return len(self.all_held())

    def all_held(self) -> list[LiveCall]:
        """Those that wait for a person."""
        return [live for live in self._calls.values() if live.held is not None]

    def find(self, call_id: str, tenant: Tenant, shown: Callable[[LiveCall], bool] | None = None) -> LiveCall:
        """A call of a tenant by its id; only one that is `shown` to whoever asks, where they do not see all.

        Raises:
            NotFound: there is none, or it was forgotten.
        """
        live = self._calls.get(call_id)
        if live is None or live.context.tenant != tenant or not (shown is None or shown(live)):
            named = printable(call_id, 64)  # whatever stands in an address
            own = f"{named}{for_tenant(tenant)}"
            raise NotFound(
                f"no call {named!r} is known",
                code="call.not_found",
                hint=f"the last {KEPT_CALLS} calls are kept while the daemon runs; an older one: paddock explain {own}"
                f", what came of one with an effect: paddock run doubt show {own}",
            )
        return live

    def recent(
        self, most: int, tenant: Tenant, shown: Callable[[LiveCall], bool] | None = None
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
                    await live.over()
        except TimeoutError:
            for live in waiting:
                live.cancel()

    async def _run(
        self, live: LiveCall, target: Target, params: Mapping[str, Any], answers: bool, approval: str | None
    ) -> None:
        ask = live.questions.put if answers else None
        live.when_in_progress = partial(self._unseat, live)  # it may take a day, and nothing is done for it meanwhile
        work = self._gate.call(
            target, params, live.context, call=live.id, approval=approval, on_event=live.tell, ask=ask, watch=live
        )
        if approval is not None:
            work = self._here_or_elsewhere(live, work)
        await self._watch(live, work, approval)
        if live.asked_for not in (None, live.id):
            live.once_more = partial(self._begin, live, target, params, answers=answers)

    async def _here_or_elsewhere(self, live: LiveCall, made_here: Coroutine[Any, Any, Any]) -> Any:
        """What comes of a call with a person's yes, which is good at one host: another may have been quicker."""
        try:
            return await made_here
        except PaddockError as error:
            if self._gate.following is None or not other_was_first(error):
                raise
            live.progress()
            return await end_elsewhere(live, self._gate.start.database, self._gate.following)

    async def _watch_elsewhere(self, live: LiveCall) -> None:
        if self._gate.following is not None:
            made = end_elsewhere(live, self._gate.start.database, self._gate.following)
            await self._watch(live, made, None)

    async def _follow(self, live: LiveCall) -> None:
        following = self._gate.following
        if following is not None:
            await self._watch(live, following.end_of(live.context.tenant, live.id), None)

    async def _watch(self, live: LiveCall, work: Coroutine[Any, Any, Any], approval: str | None) -> None:
        """Do the work on a call and see what comes of it, until somebody wants its end."""
        task = asyncio.current_task()
        assert task is not None
        result: Any = None
        error: BaseException | None = None
        try:
            if live.unwanted:  # before anything was done for it
                work.close()
                error = asyncio.CancelledError()
            else:
                live.stopped_by(task.cancel)
                try:
                    result = await work
                except (asyncio.CancelledError, Exception) as stopped:
                    error = stopped
                live.stopped_by(nothing)  # there is nothing left to stop
                if live.unwanted:
                    task.uncancel()  # it was the call that was to end
                if task.cancelling():
                    raise asyncio.CancelledError  # and here we ourselves
            # A host that goes down gives its calls up and does not cancel them: what waits, or has its yes, goes on at
            # the next one.
            unwanted = live.unwanted and not self._closed
            waits = isinstance(error, NeedsApproval)
            if unwanted and (approval is not None or waits):
                await self._gate.start.withdraw(live.context.tenant, live.id)
            if isinstance(error, asyncio.CancelledError) or (unwanted and waits):
                why = CallCancelled("the call was cancelled") if unwanted else live.cut_off()
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
            self._unseat(live)
            if live.status in ("running", "in_progress"):  # we are being cancelled ourselves
                live.end("cancelled", self._now(), error=live.cut_off())
            if live.status != "pending_approval":
                asyncio.get_running_loop().call_soon(self._keep, live)  # once whoever waits has their answer

    def _seat(self, live: LiveCall) -> None:
        live.seated = True
        self._running += 1
        self._running_for[live.context.tenant] += 1

    def _unseat(self, live: LiveCall) -> None:
        if live.seated:
            live.seated = False
            self._running -= 1
            self._running_for[live.context.tenant] -= 1

    def _keep(self, live: LiveCall) -> None:
        tenant, size = live.context.tenant, live.size
        self._ended.setdefault(tenant, deque()).append((live.id, size))
        self._ended_bytes[tenant] += size
        # Whoever has most gives way, so that one tenant cannot push out what became of another's calls.
        self._kept += 1
        while self._kept > KEPT_CALLS:
            self._forget(max(self._ended, key=lambda one: len(self._ended[one])))
        while self._ended_bytes.total() > KEPT_BYTES:
            older = [one for one, kept in self._ended.items() if len(kept) > (one == tenant)]
            if not older:
                break  # this one alone is too much, and stays for whoever made it
            self._forget(max(older, key=lambda one: self._ended_bytes[one]))

    def _forget(self, tenant: Tenant) -> None:
        """Let go of a tenant's call that ended first."""
        oldest, size = self._ended[tenant].popleft()
        self._ended_bytes[tenant] -= size
        if not self._ended[tenant]:
            del self._ended[tenant], self._ended_bytes[tenant]
        del self._calls[oldest]
        self._kept -= 1

    def _now(self) -> str:
        return time_text(self._clock.now())
