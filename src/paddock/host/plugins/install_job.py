"""One installation job: its stage, the question to a person, and its outcome.

It is changed on the event loop alone. The thread that fetches the package reports through `report_progress`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct

from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.core.errors import Conflict, PaddockError, clear_tracebacks
from paddock.core.ids import PrincipalId
from paddock.host.identity.caller import require_interactive_person
from paddock.plugins.install.consent import InstallConsent
from paddock.plugins.install.plan import InstallPlan, PlanAction
from paddock.plugins.install.resolution_cache import InstallStopped
from paddock.plugins.package.extract import InstallProgress

T = TypeVar("T")

_PROGRESS_INTERVAL_S = 0.2  # minimum interval between two progress reports


class InstallStage(StrEnum):
    """The stage of an installation job."""

    FETCHING = "fetching"
    WAITING = "waiting"  # for consent
    CHANGING = "changing"  # committing to the store
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"  # by a person, by its deadline, or by the end of the host


FINAL_STAGES = frozenset({InstallStage.DONE, InstallStage.FAILED, InstallStage.CANCELLED})


class InstallStopReason(StrEnum):
    """Why a job was stopped before it finished."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    CLOSING = "closing"  # the host closes


class InstallOutcome(Struct, frozen=True):
    """The result of a finished job."""

    change: PlanAction
    plugin: str
    version: str
    digest: str
    unset: tuple[str, ...] = ()  # configuration fields that must be set before it can be enabled


class InstallJob:
    """One installation job.

    Args:
        id: Its id.
        what: The package, as text for people.
        by: The principal that started it.
        upgrade: The plugin to upgrade, if any.
        clock: For timestamps, and to throttle progress reports.
    """

    def __init__(self, id: str, what: str, by: PrincipalId, upgrade: str | None, clock: Clock) -> None:  # noqa: A002
        self.id = id
        self.what = what
        self.by = by
        self.upgrade = upgrade
        self.began_at = clock.now().isoformat()
        self.stage = InstallStage.FETCHING
        self.progress = InstallProgress("")
        self.proposal: InstallPlan | None = None
        self.expires_at = ""
        self.outcome: InstallOutcome | None = None
        self.error: PaddockError | None = None
        self.stop_reason: InstallStopReason | None = None
        self._clock = clock
        self._reported_at = 0.0
        self._stop = threading.Event()  # checked by the worker thread
        self._stopped = asyncio.Event()  # the same, for the event loop
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[tuple[PrincipalId, InstallConsent] | None] = self._loop.create_future()
        self._change_event = asyncio.Event()

    # --- observing ----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the job has reached a final stage."""
        return self.stage in FINAL_STAGES

    async def watch(self) -> AsyncGenerator[InstallStage, None]:
        """Yield the stage now and after every change, until the job has finished."""
        while True:
            change_event = self._change_event
            yield self.stage
            if self.finished:
                return
            await change_event.wait()

    async def wait_finished(self) -> None:
        """Wait until the job has finished."""
        async for _ in self.watch():
            pass

    # --- deciding -----------------------------------------------------------------------------------------------------

    def give_consent(self, by: Principal, consent: InstallConsent) -> None:
        """Record a person's consent.

        Raises:
            Denied: the principal is a program: with a key it could install whatever it wants to run.
            Conflict: the job does not wait for consent.
            NeedsConsent: they were shown another package, or have not agreed to everything.
        """
        require_interactive_person(by)
        if self.stage is not InstallStage.WAITING or self.proposal is None or self._answer.done():
            raise Conflict("this was decided already", code="install.decided", hint="look at its result")
        self.proposal.check_consent(consent)
        self._answer.set_result((by.id, consent))
        self.progress = InstallProgress("")  # that of fetching is over
        self.set_stage(InstallStage.CHANGING)

    def stop(self, reason: InstallStopReason) -> None:
        """Stop the job. The worker undoes its partial work; a commit that is nearly done may still complete."""
        if self.finished:
            return
        self.stop_reason = self.stop_reason or reason
        self._stop.set()
        self._stopped.set()
        if not self._answer.done():
            self._answer.set_result(None)

    # --- for the worker -----------------------------------------------------------------------------------------------

    def report_progress(self, progress: InstallProgress) -> None:
        """Report progress; called on the worker thread.

        Raises:
            InstallStopped: the job was stopped.
        """
        if self._stop.is_set():
            raise InstallStopped
        now = self._clock.monotonic()
        if now - self._reported_at >= _PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._loop.call_soon_threadsafe(self._set_progress, progress)

    async def wait_for_consent(
        self, plan: InstallPlan, timeout_s: float, expires_at: str
    ) -> tuple[PrincipalId, InstallConsent]:
        """Wait for a person's consent to the plan; returns who gave it and what they agreed to.

        Raises:
            InstallStopped: it was declined, or not answered in time.
        """
        self.proposal, self.expires_at = plan, expires_at
        if not self._stop.is_set():
            self.set_stage(InstallStage.WAITING)
        answered, _ = await asyncio.wait({self._answer}, timeout=timeout_s)
        if not answered:
            self.stop(InstallStopReason.EXPIRED)
        answer = self._answer.result()
        if answer is None:
            raise InstallStopped
        return answer

    async def run_unless_stopped(self, work: Coroutine[Any, Any, T], step: str = "") -> T:
        """Return the result of some work, which is cancelled if the job is stopped; `step` is shown meanwhile.

        Raises:
            InstallStopped: the job was stopped first.
        """
        if step:
            self._set_progress(InstallProgress(step))
        result = asyncio.ensure_future(work)
        futures: set[asyncio.Future[Any]] = {result, asyncio.ensure_future(self._stopped.wait())}
        _, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        for future in pending:
            future.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if result.cancelled():
            raise InstallStopped
        return result.result()

    def succeed(self, outcome: InstallOutcome) -> None:
        """Note what was installed; the stage follows when everything is cleaned up."""
        self.outcome = outcome

    def fail(self, error: PaddockError) -> None:
        """Note why it failed; the stage follows when everything is cleaned up."""
        clear_tracebacks(error)
        self.error = error

    def set_stage(self, stage: InstallStage) -> None:
        """Move to a stage and notify watchers."""
        self.stage = stage
        if stage in FINAL_STAGES:
            self.proposal = None  # frees everything that was read of the package
        previous_event, self._change_event = self._change_event, asyncio.Event()
        previous_event.set()

    def _set_progress(self, progress: InstallProgress) -> None:
        self.progress = progress
        self.set_stage(self.stage)
