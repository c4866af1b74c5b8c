"""One life of a plugin process: launched, greeted, configured, kept under watch, and ended. The block owns it all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from paddock.cage.launcher import CagedProcess, Launcher
from paddock.cage.spec import Exit
from paddock.core.clock import Clock
from paddock.core.event import Publish
from paddock.core.events_contracts import PluginInitializeTimeout, PluginStopped
from paddock.core.events_host import (
    PluginCrashed,
    PluginExited,
    PluginInitialized,
    PluginKilled,
    PluginSpawned,
)
from paddock.plugins.supervision import handshake, wire_names
from paddock.plugins.supervision.answers import fault_words
from paddock.plugins.supervision.conversation import Conversation
from paddock.plugins.supervision.deployment import Deployment, Door, Prepared
from paddock.plugins.supervision.diagnosis import Diagnosis, what_it_said, why_it_ended
from paddock.plugins.supervision.ending import Crashed, Ending, Fatal, GaveUp, Stopped
from paddock.plugins.supervision.handshake import Introduced, Refused
from paddock.plugins.supervision.health import Health, Unwell
from paddock.plugins.supervision.start_gate import Turn
from paddock.plugins.supervision.stderr_tail import StderrReader, StderrTail
from paddock.rpc.faults import METHOD_NOT_FOUND, PeerLost, RpcFault
from paddock.rpc.pipes import open_pipes

CONFIG_TIMEOUT = 10.0
TERM_GRACE = 2.0
EXIT_GRACE = 2.0  # for a process that closed its output, before it is taken for stuck
_LAST_WAIT = 10.0  # for the kernel to bury a killed cage


@dataclass(frozen=True, slots=True)
class Running:
    """A plugin that answers calls."""

    conversation: Conversation
    introduced: Introduced
    pid: int
    cage_id: str
    config: Mapping[str, Any] = field(repr=False)  # may hold secrets in the clear


class _FatalEnd(Exception):
    def __init__(self, fatal: Fatal) -> None:
        super().__init__(fatal.reason)
        self.fatal = fatal


class _Refusal(Exception):
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class _StopAsked(Exception):
    pass


class Life:
    """What one process needs around it. `run` is its whole life."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        launcher: Launcher,
        publish: Publish,
        door: Door,
        clock: Clock,
        on_running: Callable[[Running], None],
        on_log: Callable[[str], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._deployment = deployment
        self._launcher = launcher
        self._publish = publish
        self._on_running = on_running
        self._loop = asyncio.get_running_loop()
        self._stop_asked: asyncio.Future[None] = self._loop.create_future()
        self._fatal: asyncio.Future[Fatal] = self._loop.create_future()
        self._stderr = StderrReader(StderrTail(on_log), clock)
        self._answered = False
        self._conversation = Conversation(
            deployment,
            publish=publish,
            door=door,
            clock=clock,
            on_fatal=self._meet_fatal,
            on_notification=on_notification,
        )

    def stop(self) -> None:
        """Ask this life to end gracefully."""
        if not self._stop_asked.done():
            self._stop_asked.set_result(None)

    async def run(self, prepared: Prepared, turn: Turn) -> Ending:
        """From launch to end. Whatever happens in between, the process is gone when this returns.

        Raises:
            PaddockError: the cage could not be built.
        """
        spec = prepared.cage
        process = await self._launcher.launch(spec)
        turn.began()
        name, version = self._deployment.name, self._deployment.manifest.version
        self._publish.publish(PluginSpawned(name=name, version=version, pid=process.pid, cage_id=spec.cage_id))
        exited = asyncio.ensure_future(process.wait())
        try:
            await self._stderr.attach(process.stderr)
            transport = await open_pipes(process.stdout, process.stdin, self._conversation.peer)
            self._conversation.attach(transport)
            return await self._lived(process, prepared, turn, exited)
        finally:
            # Shielded: whoever cancels us must not leave a plugin running.
            with anyio.CancelScope(shield=True):
                process.kill()
                self._conversation.close("the process ended")
                await _within(exited, _LAST_WAIT)
                self._stderr.close()

    async def _lived(
        self, process: CagedProcess, prepared: Prepared, turn: Turn, exited: asyncio.Future[Exit]
    ) -> Ending:
        try:
            introduced = await self._race(self._greet(), exited)
            turn.over()
            await self._race(self._configure(prepared), exited)
            self._on_running(
                Running(self._conversation, introduced, process.pid, prepared.cage.cage_id, prepared.config)
            )
            await self._race(Health(self._deployment, self._conversation, self._publish).watch(), exited)
        except _StopAsked:
            return await self._shut_down(process, exited)
        except _Refusal as refusal:
            self._publish.publish(refusal.refused.event)
            return GaveUp(refusal.refused.code, Diagnosis(refusal.refused.reason, refusal.refused.hint))
        except _FatalEnd as end:
            return await self._ended_badly(end.fatal, process, exited)
        except Unwell:
            # It may still be able to put its affairs in order, so it is told before it is killed.
            process.signal(signal.SIGTERM)
            if not await _within(exited, TERM_GRACE):
                process.kill()
            return await self._crashed(exited, Fatal("unwell", "it failed three health checks in a row"))
        except PeerLost as gone:
            return await self._ended_badly(Fatal("output_closed", gone.reason), process, exited)
        raise AssertionError("a watch over a plugin's health ends only by an exception")

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
        deployment = self._deployment
        params = handshake.initialize_params(
            deployment.manifest, storage_available=deployment.storage_available, projects=deployment.projects
        )
        try:
            answer = await self._conversation.ask(wire_names.INITIALIZE, params, handshake.TIMEOUT)
        except TimeoutError:
            event = PluginInitializeTimeout(name=deployment.name, timeout_sec=handshake.TIMEOUT)
            raise _Refusal(self._silent(event)) from None
        except RpcFault as fault:
            told = f"it refused the handshake: {fault_words(fault)}"
            raise _Refusal(handshake.malformed(deployment.manifest, told)) from None
        self._answered = True
        verdict = handshake.judge(deployment.manifest, deployment.capabilities, answer)
        if isinstance(verdict, Refused):
            raise _Refusal(verdict)
        if verdict.warning is not None:
            self._publish.publish(verdict.warning)
        self._conversation.open(verdict.features)
        self._conversation.tell(wire_names.INITIALIZED, {})
        self._publish.publish(
            PluginInitialized(
                name=deployment.name,
                methods_count=len(verdict.methods),
                capabilities_count=len(deployment.capabilities),
            )
        )
        return verdict

    def _silent(self, event: PluginInitializeTimeout) -> Refused:
        """A plugin that never answered; what it wrote elsewhere may tell why."""
        reason = f"it did not answer the handshake within {handshake.TIMEOUT:g} s"
        said = what_it_said([*self._conversation.noise_lines, *self._stderr.lines])
        if said is not None:
            return Refused("initialize.timeout", f"{reason}: {said.reason}", event, said.hint)
        return Refused("initialize.timeout", reason, event, "see what it wrote: paddock plugin logs")

    async def _configure(self, prepared: Prepared) -> None:
        """The configuration first, then the projects: only then does the plugin run."""
        await self._ask_or_refuse(wire_names.CONFIG_UPDATE, {"config": dict(prepared.config)})
        for project, config in self._deployment.projects.items():
            await self._ask_or_refuse(wire_names.PROJECT_ACTIVATED, {"project": project, "config": dict(config)})

    async def _ask_or_refuse(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            await self._conversation.ask(method, params, CONFIG_TIMEOUT)
        except RpcFault as fault:
            if fault.code == METHOD_NOT_FOUND and not self._deployment.takes_config:
                return  # a plugin that declares no configuration need not serve it
            raise _Refusal(self._refused_config(method, fault_words(fault))) from None
        except TimeoutError:
            raise _Refusal(self._refused_config(method, f"no answer within {CONFIG_TIMEOUT:g} s")) from None

    def _refused_config(self, method: str, words: str) -> Refused:
        refused = handshake.malformed(self._deployment.manifest, f"it did not accept {method}: {words}")
        return Refused("config_invalid", refused.reason, refused.event)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _meet_fatal(self, fatal: Fatal) -> None:
        if not self._fatal.done():
            self._fatal.set_result(fatal)

    async def _shut_down(self, process: CagedProcess, exited: asyncio.Future[Exit]) -> Ending:
        """The ladder: ask, SIGTERM, SIGKILL. Each step waits its time and no longer."""
        name = self._deployment.name
        self._conversation.tell(wire_names.SHUTDOWN, {})
        if not await _within(exited, self._deployment.manifest.timing.shutdown):
            process.signal(signal.SIGTERM)
            if not await _within(exited, TERM_GRACE):
                process.kill()
                await _within(exited, _LAST_WAIT)
                self._publish.publish(PluginKilled(name=name))
                return Stopped()
        ended = exited.result()
        if ended.code is not None:
            self._publish.publish(PluginExited(name=name, exit_code=ended.code))
        self._publish.publish(PluginStopped(name=name))
        return Stopped()

    async def _ended_badly(self, fatal: Fatal, process: CagedProcess, exited: asyncio.Future[Exit]) -> Ending:
        # Whoever closed its output is usually on its way out, and how it goes says more than that it went.
        if fatal.kind == "output_closed" and await _within(exited, EXIT_GRACE):
            return await self._crashed(exited, None)
        process.kill()  # first: one that sees its input end may go by itself, and how it went would say nothing
        self._conversation.close(fatal.reason)  # whoever waits for an answer is told why none comes
        if not self._answered and fatal.kind != "output_closed":
            refused = handshake.malformed(self._deployment.manifest, f"during the handshake: {fatal.reason}")
            self._publish.publish(refused.event)
            await _within(exited, _LAST_WAIT)
            return GaveUp(refused.code, Diagnosis(refused.reason, "the plugin's author has to mend it"))
        return await self._crashed(exited, fatal)

    async def _crashed(self, exited: asyncio.Future[Exit], fatal: Fatal | None) -> Ending:
        await _within(exited, _LAST_WAIT)
        ended = exited.result() if exited.done() else Exit(None, signal.SIGKILL)
        last_words = await self._stderr.last_words()
        self._publish.publish(
            PluginCrashed(
                name=self._deployment.name,
                exit_code=ended.code,
                signal=ended.signal,
                last_stderr=last_words,
            )
        )
        if fatal is not None:
            return Crashed(Diagnosis(fatal.reason, "see 'paddock plugin logs'"), ended, fatal.spends_budget)
        noise = self._conversation.noise_lines
        return Crashed(why_it_ended(ended, last_words, answered=self._answered, noise=noise), ended)


async def _within(future: asyncio.Future[Any], seconds: float) -> bool:
    if not future.done():
        await asyncio.wait({future}, timeout=seconds)
    return future.done()
