"""One life of a plugin process: launched, greeted, configured, kept under watch, and ended. The block owns it all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from paddock.cage.spec import CageSpec, Exit
from paddock.core.clock import Clock
from paddock.core.event import Publish
from paddock.core.events_contracts import PluginStopped
from paddock.core.events_host import (
    PluginCrashed,
    PluginExited,
    PluginInitialized,
    PluginKilled,
    PluginProtocolViolation,
)
from paddock.core.printable import printable
from paddock.plugins.supervision.answers import fault_words
from paddock.plugins.supervision.attached import attached
from paddock.plugins.supervision.body import Bodies, Body
from paddock.plugins.supervision.conversation import Conversation
from paddock.plugins.supervision.deployment import Deployment, Prepared
from paddock.plugins.supervision.diagnosis import (
    Diagnosis,
    how_to_widen,
    see_its_log,
    why_it_ended,
    why_it_is_silent,
)
from paddock.plugins.supervision.ending import EXIT_GRACE, Crashed, Ending, Fatal, GaveUp, Stopped
from paddock.plugins.supervision.health import Health, Unwell
from paddock.plugins.supervision.start_gate import Turn
from paddock.plugins.supervision.wire import Definition, Introduced, Refusal, Silent, Wire
from paddock.rpc.faults import PeerLost, RpcFault

TERM_GRACE = 2.0
_LAST_WAIT = 10.0  # for the kernel to bury a killed cage

# Told what a server says of itself, before anybody may call it.
Meet: TypeAlias = Callable[[tuple[Definition, ...]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Running:
    """A plugin that answers calls."""

    conversation: Conversation
    introduced: Introduced
    pid: int | None
    cage_id: str | None
    config: Mapping[str, Any] = field(repr=False)  # may hold secrets in the clear


class _FatalEnd(Exception):
    def __init__(self, fatal: Fatal) -> None:
        super().__init__(fatal.reason)
        self.fatal = fatal


class _StopAsked(Exception):
    pass


class Life:
    """What one process needs around it. `run` is its whole life."""

    def __init__(
        self,
        deployment: Deployment,
        wire: Wire,
        *,
        bodies: Bodies,
        publish: Publish,
        clock: Clock,
        meet: Meet,
        on_running: Callable[[Running], None],
        on_log: Callable[[str], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._deployment = deployment
        self._name = deployment.name
        self._wire = wire
        self._bodies = bodies
        self._publish = publish
        self._meet = meet
        self._on_running = on_running
        self._on_log = on_log
        self._loop = asyncio.get_running_loop()
        self._stop_asked: asyncio.Future[None] = self._loop.create_future()
        self._fatal: asyncio.Future[Fatal] = self._loop.create_future()
        self._redefined = asyncio.Event()
        self._answered = False
        self._memory_bytes: int | None = None
        self._widening = how_to_widen(deployment.manifest)
        self._conversation = Conversation(
            deployment,
            wire,
            publish=publish,
            clock=clock,
            on_fatal=self._meet_fatal,
            on_notification=on_notification,
            on_log=on_log,
            on_redefined=self._redefined.set,
        )

    def stop(self) -> None:
        """Ask this life to end gracefully."""
        if not self._stop_asked.done():
            self._stop_asked.set_result(None)

    async def run(self, prepared: Prepared, turn: Turn) -> Ending:
        """From launch to end. Whatever happens in between, the process is gone when this returns.

        Raises:
            PaddockError: there was nothing to begin with, e.g. the cage could not be built.
        """
        if isinstance(prepared.place, CageSpec):
            self._memory_bytes = prepared.place.limits.memory_bytes
        body = await self._bodies.begin(prepared.place, self._on_log)
        turn.began()
        self._publish.publish(body.began(self._deployment.name, self._deployment.manifest.version))
        exited = asyncio.ensure_future(body.wait())
        try:
            async with attached(self._conversation, body, self._misused_pipes):
                return await self._lived(body, prepared, turn, exited)
        finally:
            # Shielded: whoever cancels us must not leave a plugin running.
            with anyio.CancelScope(shield=True):
                body.kill()
                self._conversation.close("the process ended")
                await _within(exited, _LAST_WAIT)
                body.close()

    async def _lived(self, body: Body, prepared: Prepared, turn: Turn, exited: asyncio.Future[Exit]) -> Ending:
        try:
            introduced = await self._race(self._greet(), exited)
            turn.over()
            await self._race(self._wire.configure(self._conversation, prepared.config, self._projects), exited)
            await self._race(self._first_learn(), exited)
            self._on_running(Running(self._conversation, introduced, body.pid, body.cage_id, prepared.config))
            await self._race(self._watch(), exited)
        except _StopAsked:
            return await self._shut_down(body, exited)
        except Refusal as refusal:
            self._publish.publish(refusal.refused.event)
            return GaveUp(refusal.refused.code, Diagnosis(refusal.refused.reason, refusal.refused.hint))
        except Silent as silent:
            self._publish.publish(silent.event)
            noise = self._conversation.noise_lines
            return GaveUp(
                "initialize.timeout", why_it_is_silent(self._name, str(silent), body.lines, noise, self._widening)
            )
        except _FatalEnd as end:
            return await self._ended_badly(end.fatal, body, exited)
        except Unwell:
            # It may still be able to put its affairs in order, so it is told before it is killed.
            body.signal(signal.SIGTERM)
            if not await _within(exited, TERM_GRACE):
                body.kill()
            return await self._crashed(body, exited, Fatal("unwell", "it failed three health checks in a row"))
        except PeerLost as gone:
            return await self._ended_badly(Fatal("output_closed", gone.reason), body, exited)
        raise AssertionError("a watch over a plugin ends only by an exception")

    @property
    def _projects(self) -> Mapping[str, Mapping[str, Any]]:
        return self._deployment.projects

    async def _race(self, work: Any, exited: asyncio.Future[Exit]) -> Any:
        """The result of the work, unless the process ends, a person wants it to, or it does what ends it, first."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, exited, self._fatal, self._stop_asked}, return_when=asyncio.FIRST_COMPLETED)
            if self._fatal.done():
                raise _FatalEnd(self._fatal.result())
            if task.done():
                return task.result()
            if self._stop_asked.done():
                raise _StopAsked
            raise PeerLost("the process ended")
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, PeerLost, RpcFault):
                    await task
            elif not task.cancelled():
                task.exception()  # seen; a race has one winner

    async def _greet(self) -> Introduced:
        introduced = await self._wire.greet(self._conversation)
        self._answered = True
        if introduced.warning is not None:
            self._publish.publish(introduced.warning)
        self._conversation.open()
        self._publish.publish(
            PluginInitialized(
                name=self._deployment.name,
                methods_count=introduced.serves,
                capabilities_count=len(self._deployment.capabilities),
            )
        )
        return introduced

    async def _learn(self) -> None:
        """Have what it says of itself compared with what people accepted."""
        self._redefined.clear()
        definitions = await self._wire.definitions(self._conversation)
        if definitions is not None:
            await self._meet(definitions)

    async def _first_learn(self) -> None:
        try:
            await self._learn()
        except (RpcFault, TimeoutError) as error:
            self._meet_fatal(Fatal("unlisted", f"it did not say what it offers: {fault_words(error)}"))

    async def _watch(self) -> None:
        """See that it stays well, and look again when it says that it offers something else. Never ends by itself."""
        health = Health(self._deployment, self._conversation, self._publish)
        interval = self._deployment.manifest.timing.health_interval
        next_look = self._loop.time() + interval
        while True:
            try:
                async with asyncio.timeout_at(next_look):
                    await self._redefined.wait()
            except TimeoutError:
                await health.look()
                next_look = self._loop.time() + interval
            else:
                with contextlib.suppress(RpcFault, TimeoutError):  # it stays with what is known of it
                    await self._learn()

    def _misused_pipes(self, detail: str) -> None:
        """It lost its pipes for big bytes, and nothing else."""
        self._publish.publish(
            PluginProtocolViolation(name=self._name, violation_type="artifacts", detail=printable(detail, 500))
        )
        self._on_log(f"[paddock] its pipes for artifacts are closed: {printable(detail, 500)}")

    # --- the end ------------------------------------------------------------------------------------------------------

    def _meet_fatal(self, fatal: Fatal) -> None:
        if not self._fatal.done():
            self._fatal.set_result(fatal)

    async def _shut_down(self, body: Body, exited: asyncio.Future[Exit]) -> Ending:
        """The ladder: ask, SIGTERM, SIGKILL. Each step waits its time and no longer."""
        name = self._name
        self._conversation.explain(Diagnosis("it was asked to stop", f"see why: paddock plugin info {name}"))
        self._wire.farewell(self._conversation)
        if not await _within(exited, self._deployment.manifest.timing.shutdown):
            body.signal(signal.SIGTERM)
            if not await _within(exited, TERM_GRACE):
                body.kill()
                await _within(exited, _LAST_WAIT)
                self._publish.publish(PluginKilled(name=name))
                return Stopped()
        ended = exited.result()
        if ended.code is not None:
            self._publish.publish(PluginExited(name=name, exit_code=ended.code))
        self._publish.publish(PluginStopped(name=name))
        return Stopped()

    async def _ended_badly(self, fatal: Fatal, body: Body, exited: asyncio.Future[Exit]) -> Ending:
        # A process that closed its output is usually on its way out, and how it goes says more than that it went.
        if fatal.kind == "output_closed" and body.pid is not None and await _within(exited, EXIT_GRACE):
            return await self._crashed(body, exited, None)
        self._conversation.explain(Diagnosis(fatal.reason))  # whoever waits for an answer is told why none comes
        # Waited for: one that sees its pipes end may go by itself, and how it went would say nothing.
        body.kill()
        await _within(exited, EXIT_GRACE)
        self._conversation.close(fatal.reason)
        if not self._answered and fatal.kind != "output_closed":
            reason = f"during the handshake: {fatal.reason}"
            self._publish.publish(
                PluginProtocolViolation(
                    name=self._deployment.name, violation_type="handshake", detail=printable(reason, 500)
                )
            )
            await _within(exited, _LAST_WAIT)
            return GaveUp("protocol_violation", Diagnosis(reason, "the plugin's author has to mend it"))
        return await self._crashed(body, exited, fatal)

    async def _crashed(self, body: Body, exited: asyncio.Future[Exit], fatal: Fatal | None) -> Ending:
        await _within(exited, _LAST_WAIT)
        ended = exited.result() if exited.done() else Exit(None, signal.SIGKILL)
        last_words = await body.last_words()
        self._publish.publish(
            PluginCrashed(
                name=self._deployment.name,
                exit_code=ended.code,
                signal=ended.signal,
                last_stderr=last_words,
            )
        )
        spends = fatal is None or fatal.spends_budget
        if fatal is not None:
            diagnosis = Diagnosis(fatal.reason, see_its_log(self._name))
        else:
            diagnosis = why_it_ended(
                self._name,
                ended,
                last_words,
                answered=self._answered,
                noise=self._conversation.noise_lines,
                memory_bytes=self._memory_bytes,
                how=self._widening,
            )
        self._conversation.explain(diagnosis)  # whoever waits for an answer is told why none comes
        return Crashed(diagnosis, ended, spends)


async def _within(future: asyncio.Future[Any], seconds: float) -> bool:
    if not future.done():
        await asyncio.wait({future}, timeout=seconds)
    return future.done()
