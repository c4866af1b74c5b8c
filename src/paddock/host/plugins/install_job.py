"""One installation that is under way: how far it is, what a person is asked, and what became of it.

It is changed on the event loop alone. What fetches the package works on a thread, and says how far it is by `report`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.core.errors import Conflict, PaddockError
from paddock.core.ids import PrincipalId
from paddock.host.identity.caller import require_interactive_person
from paddock.manifest.capability import Capability
from paddock.plugins.install.plan import InstallPlan, PlanAction
from paddock.plugins.package.extract import InstallProgress

_PROGRESS_INTERVAL_S = 0.2  # seconds between two words on how far it is


class InstallStage(StrEnum):
    """How far an installation is."""

    FETCHING = "fetching"
    WAITING = "waiting"  # for a person
    CHANGING = "changing"  # the store
    DONE = "done"
    FAILED = "failed"
    GIVEN_UP = "given_up"


FINAL_STAGES = frozenset({InstallStage.DONE, InstallStage.FAILED, InstallStage.GIVEN_UP})


class InstallStopReason(StrEnum):
    """Why one ends that nobody went through with."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    CLOSING = "closing"  # the host closes


class InstallStopped(Exception):
    """Nobody wants it any more. Raised where the work is, to leave it."""


@dataclass(frozen=True, slots=True)
class InstallConsent:
    """A person's yes: to the whole, and to what needs one of its own."""

    by: Principal
    acknowledged: frozenset[Capability] = frozenset()
    less_trust: bool = False


@dataclass(frozen=True, slots=True)
class InstallOutcome:
    """What was done."""

    change: PlanAction
    plugin: str
    version: str
    unset: tuple[str, ...] = ()  # what of its configuration has to be set before it can be enabled


class InstallJob:
    """One of them.

    Args:
        id: What it is found by.
        what: What is fetched, in words.
        by: Who began it.
        upgrade: The plugin that it is to be the next version of.
        clock: For how often it tells how far it is.
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
        self._stop = threading.Event()  # for the thread that works on it
        self._stopped = asyncio.Event()  # the same for the event loop
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[InstallConsent | None] = self._loop.create_future()
        self._change_event = asyncio.Event()

    # --- for whoever looks --------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether nothing becomes of it any more."""
        return self.stage in FINAL_STAGES

    async def watch(self) -> AsyncGenerator[InstallStage, None]:
        """Its stage now, and each time that anything of it changes, until it is over."""
        while True:
            news = self._change_event
            yield self.stage
            if self.finished:
                return
            await news.wait()

    async def wait_finished(self) -> None:
        """Wait until it is over."""
        async for _ in self.watch():
            pass

    # --- for whoever decides ------------------------------------------------------------------------------------------

    def give_consent(self, consent: InstallConsent) -> None:
        """A person's yes.

        Raises:
            Denied: it is a program's. With a key it could bring in whatever it wants to run.
            Conflict: it does not wait for one.
            NeedsConsent: something needs a yes of its own, and has none.
        """
        require_interactive_person(consent.by)
        if self.stage is not InstallStage.WAITING or self.proposal is None or self._answer.done():
            raise Conflict("this was decided already", code="install.decided", hint="look at what became of it")
        self.proposal.check_consent(consent.acknowledged, less_trust=consent.less_trust)
        self._answer.set_result(consent)
        self.set_stage(InstallStage.CHANGING)

    def stop(self, why: InstallStopReason) -> None:
        """Go no further. What was begun is undone by whoever works on it; a change that is nearly made may still be."""
        if self.finished:
            return
        self.stop_reason = self.stop_reason or why
        self._stop.set()
        self._stopped.set()
        if not self._answer.done():
            self._answer.set_result(None)

    # --- for whoever works on it --------------------------------------------------------------------------------------

    def report_progress(self, progress: InstallProgress) -> None:
        """How far the work is; called on the thread that does it.

        Raises:
            Stopped: nobody wants it any more.
        """
        if self._stop.is_set():
            raise InstallStopped
        now = self._clock.monotonic()
        if now - self._reported_at >= _PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._loop.call_soon_threadsafe(self._set_progress, progress)

    async def wait_for_consent(self, proposal: InstallPlan, patience: float, expires_at: str) -> InstallConsent:
        """A person's answer to what is proposed.

        Raises:
            Stopped: they said no, or said nothing for so many seconds.
        """
        self.proposal, self.expires_at = proposal, expires_at
        if not self._stop.is_set():
            self.set_stage(InstallStage.WAITING)
        answered, _ = await asyncio.wait({self._answer}, timeout=patience)
        if not answered:
            self.stop(InstallStopReason.EXPIRED)
        consent = self._answer.result()
        if consent is None:
            raise InstallStopped
        return consent

    async def run_unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for something that goes on without us; no longer than anybody wants this."""
        waiting: set[asyncio.Future[Any]] = {asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())}
        over, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for one in over:
            one.result()

    def set_stage(self, stage: InstallStage) -> None:
        """It is further."""
        self.stage = stage
        if stage in FINAL_STAGES:
            self.proposal = None  # with it goes all that was read of the package
        before, self._change_event = self._change_event, asyncio.Event()
        before.set()

    def _set_progress(self, progress: InstallProgress) -> None:
        self.progress = progress
        self.set_stage(self.stage)
