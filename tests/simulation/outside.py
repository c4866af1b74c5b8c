"""The world outside: what plugins do to it, a plugin that does it well or badly, and what that plugin lives in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from paddock.cage.spec import ProcessExit
from paddock.core.events.contracts import PluginEmbedded
from paddock.core.events.event import Event
from paddock.core.ids import PluginName
from paddock.rpc.errors import PeerLost, RpcError
from paddock.rpc.memory_transport import MemoryTransport, memory_pair
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import LaunchTarget
from paddock.runtime.endpoint import PluginEndpoint

PLUGIN = PluginName("till")
CALL_TIMEOUT = 5.0

_EFFECT = {
    "effects": ["external_send"],
    "input_schema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
    "output_schema": {"type": "object", "properties": {"receipt": {"type": "integer"}}, "required": ["receipt"]},
}
MANIFEST: Mapping[str, Any] = {
    "paddock": 1,
    "name": PLUGIN,
    "version": "1.0.0",
    "description": "Does things that are counted.",
    "tools": [
        {"name": "count", "description": "Nobody can find out later.", **_EFFECT},
        {"name": "pay", "description": "Its other side knows keys.", **_EFFECT, "recovery": "native_key"},
        {"name": "post", "description": "It can look.", **_EFFECT, "recovery": "probe", "probe": "posted"},
        {"name": "posted", "description": "Looks.", "effects": ["read_only"], "input_schema": {"type": "object"}},
    ],
}
TOOLS = ("count", "pay", "post")


@dataclass(frozen=True, slots=True)
class Act:
    """Something that has happened."""

    tool: str
    key: str
    what: str
    receipt: int

    @property
    def answer(self) -> dict[str, Any]:
        return {"receipt": self.receipt, "what": self.what}


@dataclass
class Outside:
    """Everything that has happened, in order. Outlives hosts."""

    acts: list[Act] = field(default_factory=list[Act])

    def under(self, tool: str, key: str) -> list[Act]:
        return [act for act in self.acts if (act.tool, act.key) == (tool, key)]

    def act(self, tool: str, key: str, what: str) -> Act:
        """Do it; what is told of one key twice is done once where the other side knows keys."""
        if tool == "pay" and (known := self.under(tool, key)):
            return known[0]
        act = Act(tool, key, what, len(self.acts) + 1)
        self.acts.append(act)
        return act


class Way(StrEnum):
    """How the plugin serves one call."""

    WELL = "well"
    REFUSES = "refuses"  # says that nothing has happened, and nothing has
    TWICE = "answers twice"
    LATE = "answers late"
    SILENT = "does nothing and says nothing"
    SILENT_DONE = "does it and says nothing"
    DIES = "dies before"
    DIES_DONE = "dies after"
    FAILS = "fails before"  # with an error of which nobody knows what it means
    FAILS_DONE = "fails after"
    ODD = "does it and answers something else"
    MALFORMED = "does it and answers what is no answer"
    STRANGER = "does it and answers somebody else"


DONE = frozenset(Way) - {Way.REFUSES, Way.SILENT, Way.DIES, Way.FAILS}
"""Those in which it happens."""

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603


@dataclass(slots=True)
class Job:
    """A call that it was given."""

    id: Any
    tool: str
    key: str
    what: str
    way: Way
    done: bool = False


class Program:
    """The plugin, as a process that reads lines and writes lines.

    Args:
        outside: Where it does things.
        chances: Decides how it serves each call, and how long it takes.
        badly: How likely it is that it serves one in another way than well.
        note: Told what it does.
    """

    def __init__(self, outside: Outside, chances: Random, badly: float, note: Callable[[str], None]) -> None:
        self._outside = outside
        self._chances = chances
        self._badly = badly
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._transport: MemoryTransport | None = None
        self.jobs: list[Job] = []
        self.exited: asyncio.Future[ProcessExit] = self._loop.create_future()

    def attach(self, transport: MemoryTransport) -> None:
        self._transport = transport
        transport.start()

    # --- what it reads ------------------------------------------------------------------------------------------------

    def frame_received(self, frame: bytes) -> None:
        message = json.loads(frame)
        method, params, id = message.get("method"), message.get("params", {}), message.get("id")  # noqa: A001
        match method:
            case "initialize":
                answer = {"name": PLUGIN, "version": "1.0.0", "api_version": 1}
                self._later(lambda: self._answer(id, answer))
            case "ping":
                self._later(lambda: self._answer(id, {"status": "ok"}))
            case "shutdown":
                self._later(lambda: self.die(0))
            case "till.posted":
                self._later(lambda: self._answer(id, self._looked(params)))
            case _ if id is not None and str(method).startswith(f"{PLUGIN}."):
                self._serve(id, str(method).removeprefix(f"{PLUGIN}."), params)
            case _ if id is not None:
                self._later(lambda: self._answer(id, {}))
            case _:
                pass

    def violated(self, kind: str, detail: str) -> None:
        raise AssertionError(f"the host sent what is no message: {kind}, {detail}")

    def stalled(self) -> None:
        pass

    def lost(self, reason: str) -> None:
        del reason
        self.die(0)

    def _serve(self, id: Any, tool: str, params: Mapping[str, Any]) -> None:  # noqa: A002
        bad = self._chances.random() < self._badly
        way = self._chances.choice([one for one in Way if one is not Way.WELL]) if bad else Way.WELL
        job = Job(id, tool, params["_context"]["idempotency_key"], params.get("what", "nothing"), way)
        self.jobs.append(job)
        self._note(f"plugin: {tool} {job.key} {way}")
        self._later(lambda: self._work(job))

    def _looked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        found = self._outside.under("post", params["idempotency_key"])
        self._note(f"plugin: looked for {params['idempotency_key']}, found {len(found)}")
        return {"happened": True, "result": found[0].answer} if found else {"happened": False}

    # --- what it does -------------------------------------------------------------------------------------------------

    def _work(self, job: Job) -> None:
        act = self.do(job) if job.way in DONE else None
        self._later(lambda: self._end(job, act))

    def undone(self) -> list[Job]:
        """What it is about to do."""
        return [job for job in self.jobs if job.way in DONE and not job.done and not self.exited.done()]

    def do(self, job: Job) -> Act:
        job.done = True
        return self._outside.act(job.tool, job.key, job.what)

    def _end(self, job: Job, act: Act | None) -> None:
        answer = act.answer if act is not None else {}
        match job.way:
            case Way.WELL:
                self._answer(job.id, answer)
            case Way.TWICE:
                self._answer(job.id, answer)
                self._answer(job.id, {"receipt": -1, "what": "once more"})
            case Way.LATE:
                self._later(lambda: self._answer(job.id, answer), CALL_TIMEOUT * self._chances.uniform(0.9, 1.5))
            case Way.REFUSES:
                self._fail(job.id, INVALID_PARAMS, "not this")
            case Way.FAILS | Way.FAILS_DONE:
                self._fail(job.id, INTERNAL_ERROR, "the plugin failed (KeyError)")
            case Way.DIES | Way.DIES_DONE:
                self.die(1)
            case Way.ODD:
                self._answer(job.id, self._chances.choice([{"receipt": "none"}, {}, None, [answer]]))
            case Way.MALFORMED:
                self._send({"jsonrpc": "2.0", "id": job.id, **self._chances.choice(_MALFORMED)})
            case Way.STRANGER:
                self._answer(100_000, answer)
            case Way.SILENT | Way.SILENT_DONE:
                pass

    def die(self, code: int) -> None:
        """End, and with it everything that was not done yet."""
        for timer in self._timers:
            timer.cancel()
        if self._transport is not None:
            self._transport.close()
        if not self.exited.done():
            self._note(f"plugin: ended ({code})")
            self.exited.set_result(ProcessExit(code, None))

    # --- what it writes -----------------------------------------------------------------------------------------------

    def _answer(self, id: Any, result: Any) -> None:  # noqa: A002
        self._send({"jsonrpc": "2.0", "id": id, "result": result})

    def _fail(self, id: Any, code: int, message: str) -> None:  # noqa: A002
        self._send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            if self._transport is not None:
                self._transport.send(json.dumps(message).encode() + b"\n")
        except (PeerLost, RpcError):
            pass  # the host hung up

    def _later(self, do: Callable[[], None], seconds: float | None = None) -> None:
        pause = self._chances.choice((0.0, 0.001, self._chances.uniform(0, 0.05))) if seconds is None else seconds
        self._timers.append(self._loop.call_later(pause, do))


_MALFORMED: tuple[dict[str, Any], ...] = ({}, {"result": {}, "error": {}}, {"error": "no object"}, {"error": {}})


class Programs:
    """Begins plugins."""

    def __init__(self, outside: Outside, chances: Random, badly: float, note: Callable[[str], None]) -> None:
        self._make = lambda: Program(outside, chances, badly, note)
        self.all: list[Program] = []

    async def launch(self, target: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        del target, on_log
        program = self._make()
        self.all.append(program)
        return _Process(program)


class _Process:
    """See `PluginEndpoint`."""

    pid = None
    cage_id = None

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def recent_log(self) -> list[str]:
        return []

    def start_event(self, plugin: PluginName, version: str) -> Event:
        return PluginEmbedded(name=plugin, version=version)

    async def connect(self, receiver: Receiver) -> Transport:
        ours, theirs = memory_pair(receiver, self._program)
        self._program.attach(theirs)
        return ours

    async def wait(self) -> ProcessExit:
        return await asyncio.shield(self._program.exited)

    def signal(self, number: int) -> None:
        del number
        self.kill()

    def kill(self) -> None:
        self._program.die(-9)

    async def final_log(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.kill()
