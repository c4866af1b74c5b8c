"""One life of a plugin, gone through step by step by whoever wants to see how it does. Nobody restarts it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from paddock.cage.spec import Exit
from paddock.capabilities.asking import Asking
from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PluginError
from paddock.core.event import Publish
from paddock.host.workshop.author_words import for_its_author
from paddock.manifest.model import CallableSpec, PythonRuntime
from paddock.plugins.runtimes.choosing import wire_for
from paddock.plugins.runtimes.native.wire import Door
from paddock.plugins.runtimes.python.wire import PythonWire
from paddock.plugins.supervision.attached import attached
from paddock.plugins.supervision.body import Bodies, Body
from paddock.plugins.supervision.call_plan import plan_call
from paddock.plugins.supervision.conversation import Conversation
from paddock.plugins.supervision.deployment import Deployment, Prepared
from paddock.plugins.supervision.diagnosis import what_it_said
from paddock.plugins.supervision.ending import Fatal
from paddock.plugins.supervision.wire import Definition, Introduced, Message, Refusal, Silent, Wire
from paddock.rpc.faults import PeerLost

CALL_TIMEOUT = 30.0
_LAST_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a plugin went when it was asked to."""

    seconds: float
    code: int | None
    signal: int | None
    in_time: bool


class Trial:
    """A process that was started and nothing more. Made by `on_trial`.

    Attributes:
        log: The lines of its log.
        asked: What it asked of the host, by method and without the namespace, in order.
        fatal: What it did that ends a plugin; empty while it behaves.
    """

    def __init__(
        self,
        deployment: Deployment,
        prepared: Prepared,
        body: Body,
        wire: Wire,
        lines: list[str],
        asked: list[str],
        publish: Publish,
        clock: Clock,
    ) -> None:
        self.manifest = deployment.manifest
        self.capabilities = deployment.capabilities
        self.log = lines
        self.asked = asked
        self.fatal = ""
        self._ending = False  # from then on it may close its output
        self._prepared = prepared
        self._body = body
        self._wire = wire
        self._exited = asyncio.ensure_future(body.wait())
        self._conversation = Conversation(
            deployment,
            wire,
            publish=publish,
            clock=clock,
            on_fatal=self._met_fatal,
            on_notification=lambda _method, _params: None,
            on_log=self.log.append,
        )

    def attached(self) -> AbstractAsyncContextManager[None]:
        return attached(self._conversation, self._body, self._misused_pipes)

    @property
    def noise(self) -> list[str]:
        """The first lines on its standard output that are no JSON-RPC."""
        return self._conversation.noise_lines

    async def greet(self) -> Introduced:
        """The first exchange.

        Raises:
            PluginError: it did not answer as it should; says how.
        """
        try:
            introduced = await self._wire.greet(self._conversation)
        except Refusal as refusal:
            raise self._refused(refusal) from None
        except (Silent, PeerLost) as error:
            raise await self._fell(str(error)) from None
        self._conversation.open()
        return introduced

    async def configure(self) -> Mapping[str, Any]:
        """Give it its configuration, and return which.

        Raises:
            PluginError: it does not take it.
        """
        try:
            await self._wire.configure(self._conversation, self._prepared.config, {})
        except Refusal as refusal:
            raise self._refused(refusal) from None
        except PeerLost as gone:
            raise await self._fell(gone.reason) from None
        return self._prepared.config

    async def definitions(self) -> tuple[Definition, ...] | None:
        """What it says that it offers, where its manifest does not."""
        return await self._wire.definitions(self._conversation)

    async def well(self) -> bool:
        """Whether it answers its protocol's ping.

        Raises:
            TimeoutError, PeerLost: it does not.
        """
        return await self._wire.well(self._conversation)

    async def ask(self, method: str, params: Mapping[str, Any], within: float) -> Any:
        """Its answer to any request.

        Raises:
            RpcFault: it is an error.
            TimeoutError, PeerLost: there is none.
        """
        return await self._conversation.ask(Message(method, dict(params)), within)

    async def call(self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, *, key: str = "") -> Any:
        """Call it without the gate, so that what the gate would stop arrives. Gives the answer as it came.

        Args:
            spec: What to call.
            payload: With what.
            context: For whom.
            key: The idempotency key, for those that are told one.

        Raises:
            PaddockError: it answered with an error, or not at all.
        """
        if isinstance(self._wire, _OpenWire):
            self._wire.key = key
        return await self._conversation.call(plan_call(self.manifest, spec, CALL_TIMEOUT), payload, context)

    async def end(self) -> Ended:
        """Ask it to end, and wait as long as its manifest says."""
        self._ending = True
        began, limit = time.monotonic(), float(self.manifest.timing.shutdown)
        self._wire.farewell(self._conversation)
        await asyncio.wait({self._exited}, timeout=limit)
        in_time = self._exited.done()
        if not in_time:
            self._body.kill()
            await asyncio.wait({self._exited}, timeout=_LAST_WAIT)
        ended = self._exited.result() if self._exited.done() else Exit(None, None)
        return Ended(time.monotonic() - began, ended.code, ended.signal, in_time)

    async def close(self) -> None:
        self._body.kill()
        self._conversation.close("the trial is over")
        await asyncio.wait({self._exited}, timeout=_LAST_WAIT)
        self._body.close()

    def _refused(self, refusal: Refusal) -> PluginError:
        refused = refusal.refused
        return PluginError(refused.reason, code=refused.code, hint=for_its_author(refused.hint, self.manifest.name))

    async def _fell(self, words: str) -> PluginError:
        """What became of a process that did not answer, with what it wrote about it."""
        self._body.kill()
        await asyncio.wait({self._exited}, timeout=_LAST_WAIT)
        said = what_it_said([*self.noise, *await self._body.last_words()])
        last = next((line for line in reversed(self.log) if line.strip()), "")
        more = said.reason if said else last
        hint = for_its_author(said.hint, self.manifest.name) if said else ""
        return PluginError(f"{words}: {more}" if more else words, code="plugin.crashed", hint=hint)

    def _misused_pipes(self, detail: str) -> None:
        self.fatal = self.fatal or f"it misused its pipes for artifacts: {detail}"

    def _met_fatal(self, fatal: Fatal) -> None:
        if not self._ending:
            self.fatal = self.fatal or fatal.reason


class _OpenWire(PythonWire):
    """A worker's wire that shows the whole envelope, and hands over an idempotency key."""

    key = ""

    def call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> Message:
        message = super().call(spec, payload, context, token, listens=listens)
        if self.key:
            message.params["envelope"]["idempotency_key"] = self.key
        return message

    def result(self, spec: CallableSpec, raw: Any) -> Any:
        del spec
        return raw


@dataclass(frozen=True, slots=True)
class _ListeningDoor:
    """Notes what a plugin asks for, and passes it on."""

    door: Door
    asked: list[str] = field(default_factory=list[str])

    async def answer(self, asking: Asking, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append(method.partition(".")[2])
        return await self.door.answer(asking, method, params)


@asynccontextmanager
async def on_trial(
    deployment: Deployment, prepared: Prepared, bodies: Bodies, door: Door, *, publish: Publish, clock: Clock
) -> AsyncGenerator[Trial, None]:
    """A life that ends with the block.

    Raises:
        PaddockError: there is none, e.g. the cage could not be built.
    """
    lines: list[str] = []
    listening = _ListeningDoor(door)
    python = isinstance(deployment.manifest.runtime, PythonRuntime)
    wire = _OpenWire(deployment, listening) if python else wire_for(deployment, door=listening)
    body = await bodies.begin(prepared.place, lines.append)
    trial = Trial(deployment, prepared, body, wire, lines, listening.asked, publish, clock)
    try:
        async with trial.attached():
            yield trial
    finally:
        # Shielded: whoever cancels a trial must not leave a plugin running.
        with anyio.CancelScope(shield=True):
            await trial.close()
