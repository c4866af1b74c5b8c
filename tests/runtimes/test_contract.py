"""The contract of `contract.py`, run against every runtime there is."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.mcp.playing import caged, connected, elsewhere
from tests.runtime.stage import Actor, Stage, patiently
from tests.runtimes.contract import RuntimeContract

from paddock.manifest.model import CallableForm, CallableSpec

NATIVE = """
def said(request, words):
    answer(request, {"said": words})
def tell(request, step):
    event = {"type": "progress", "progress": step, "total": 3}
    send({"jsonrpc": "2.0", "method": "paddock.event", "params": {"id": request["id"], "event": event}})
def play(request):
    match request["method"]:
        case "actor.echo":
            said(request, request["params"]["text"])
        case "actor.fail":
            refuse(request, -32000, "it broke")
        case "actor.slow":
            for step in (1, 2, 3):
                tell(request, step)
            said(request, "done")
        case "actor.hang":
            print("hang began", file=sys.stderr, flush=True)
        case "actor.crash":
            os._exit(3)
        case "actor.big":
            said(request, "x" * 5_000_000)
        case "paddock.cancel":
            print("hang was stopped", file=sys.stderr, flush=True)
            refuse(request["params"], -32000, "stopped")
hello(features=["events", "cancel"])
serve(**{name.replace(".", "_"): play for name in [*METHODS, "paddock.cancel"]})
"""
TOOLS = ("echo", "fail", "slow", "hang", "crash", "big")


@dataclass
class NativePlayer:
    """A plugin that speaks our own protocol."""

    actor: Actor

    async def said(self, name: str, payload: dict[str, Any] | None = None, *, timeout_sec=None, on_event=None) -> str:
        stage = self.actor.stage
        spec = CallableSpec(name, CallableForm.TOOL, timeout_sec=timeout_sec)
        call = stage.supervisor.call(self.actor.key, spec, payload or {}, stage.context(), on_event=on_event)
        return (await patiently(call))["said"]

    async def logged(self, words: str) -> None:
        audience = self.actor.stage.audience
        await audience.until(lambda: any(words in line for line in audience.lines))


class TestOurOwnProtocol(RuntimeContract):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        tools = [{"name": name, "effects": ["read_only"]} for name in TOOLS]
        names = [f"actor.{name}" for name in TOOLS]
        script = f"METHODS = {names!r}\n{NATIVE}"
        yield NativePlayer(stage.actor(script, methods=[], tools=tools))


class TestAnMcpServerInACage(RuntimeContract):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        yield caged(stage)


@pytest.mark.slow  # the same transport with an older handshake
class TestAnOlderMcpServerInACage(RuntimeContract):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        yield caged(stage, "2025-11-25")


class TestAnMcpServerElsewhere(RuntimeContract):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        async with elsewhere() as server:
            yield connected(stage, server.url, log=server)


@pytest.mark.slow  # the same transport with an older handshake
class TestAnOlderMcpServerElsewhere(RuntimeContract):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        async with elsewhere("2025-11-25") as server:
            yield connected(stage, server.url, log=server)


@pytest.mark.slow  # the same calls over the transport of 2024
class TestAnMcpServerElsewhereOnTheFormerTransport(RuntimeContract):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        async with elsewhere(way="sse") as server:
            yield connected(stage, server.url, log=server, runtime={"transport": "sse"})
