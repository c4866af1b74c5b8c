"""Servers of `server.py` on a stage: in a cage on their standard streams, or outside of it over HTTP."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fixtures.packages import write_file, write_json
from tests.runtime.stage import PATIENCE, Actor, Stage, patiently

from paddock.manifest.model import CallableForm, CallableSpec
from paddock.runtime.calls import AskCaller, OnEvent

SERVER = Path(__file__).parent / "server.py"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
WAYS = ("stdio", "http")


def site_packages() -> str:
    """Where the official SDK is, found without importing it."""
    spec = find_spec("mcp_types")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parents[1])


@dataclass
class McpPlayer:
    """A server on a stage, as a test calls it."""

    actor: Actor
    server: Elsewhere | None = None  # where it is not in a cage

    async def logged(self, words: str) -> None:
        """Wait until it wrote these words to its log."""
        if self.server is not None:
            return await self.server.until_said(words)
        audience = self.actor.stage.audience
        return await audience.until(lambda: any(words in line for line in audience.lines))

    async def call(
        self,
        name: str,
        payload: dict[str, Any] | None = None,
        *,
        form: CallableForm = CallableForm.TOOL,
        timeout_sec: int | None = None,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
    ) -> Any:
        stage = self.actor.stage
        spec = CallableSpec(name, form, timeout_sec=timeout_sec)
        return await patiently(
            stage.supervisor.call(self.actor.key, spec, payload or {}, stage.context(), on_event=on_event, ask=ask)
        )

    async def said(self, name: str, payload: dict[str, Any] | None = None, **options: Any) -> str:
        """The text of a tool's result."""
        return (await self.call(name, payload, **options))["content"][0]["text"]


def caged(stage: Stage, revision: str = "all", name: str = "server", **fields: Any) -> McpPlayer:
    """The real server, in a cage."""
    root = stage.folder / f"plugin-{name}"
    root.mkdir()
    shutil.copy(SERVER, root / "server.py")
    return McpPlayer(_deployed(stage, root, name, ["python3", "./server.py", "stdio", revision], **fields))


def scripted(stage: Stage, script: str, name: str = "server", **fields: Any) -> McpPlayer:
    """A server that is this script, in a cage."""
    root = stage.folder / f"plugin-{name}"
    write_file(root / "main.py", SCRIPT + script)
    return McpPlayer(_deployed(stage, root, name, ["python3", "./main.py"], **fields))


def _deployed(stage: Stage, root: Path, name: str, command: list[str], **fields: Any) -> Actor:
    site = site_packages()
    manifest = {
        "paddock": 1,
        "name": name,
        "version": "1.0.0",
        "description": "A server",
        "runtime": {"command": command, "protocol": "mcp", "env": {"PYTHONPATH": site}},
        "capabilities": [f"read:fs:{site}"],
    } | fields
    write_json(root / "paddock.yaml", manifest)
    return stage.deploy(root)


def connected(
    stage: Stage, url: str, name: str = "server", *, log: Elsewhere | None = None, **fields: Any
) -> McpPlayer:
    """A server at an address."""
    root = stage.folder / f"plugin-{name}"
    host = url.split("/")[2]
    manifest = {
        "paddock": 1,
        "name": name,
        "version": "1.0.0",
        "description": "A server",
        "runtime": {"url": url, **fields.pop("runtime", {})},
        "capabilities": [f"net:{host}"],
    } | fields
    write_json(root / "paddock.yaml", manifest)
    return McpPlayer(stage.deploy(root), log)


class Elsewhere:
    """The real server over HTTP, started again whenever it falls."""

    def __init__(self, way: str, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/{'sse' if way == 'sse' else 'mcp'}"
        self.lines: list[str] = []
        self.starts = 0
        self.process: asyncio.subprocess.Process | None = None
        self._news = asyncio.Event()

    async def keep(self, way: str, revision: str, port: int) -> None:
        while True:
            command = [sys.executable, str(SERVER), way, revision, str(port)]
            self.process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
            self.starts += 1
            assert self.process.stderr is not None
            try:
                async for line in self.process.stderr:
                    self.lines.append(line.decode())
                    self._news.set()
                await self.process.wait()
            finally:
                if self.process.returncode is None:
                    self.process.kill()
                    await self.process.wait()

    async def until_said(self, words: str) -> None:
        while not any(words in line for line in self.lines):
            self._news.clear()
            await patiently(self._news.wait())


@asynccontextmanager
async def elsewhere(revision: str = "all", way: str = "http") -> AsyncGenerator[Elsewhere, None]:
    """The real server, listening on this machine, for as long as the block runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Elsewhere(way, port)
    keeping = asyncio.ensure_future(server.keep(way, revision, port))
    try:
        await listening(port)
        yield server
    finally:
        keeping.cancel()
        await asyncio.wait({keeping}, timeout=PATIENCE)


async def listening(port: int) -> None:
    """Wait until something answers there."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)  # it says nowhere when it begins to listen
            else:
                writer.close()
                return


@asynccontextmanager
async def playing(stage: Stage, way: str, revision: str = "all") -> AsyncGenerator[McpPlayer, None]:
    """The real server on the stage, this way."""
    if way == "stdio":
        yield caged(stage, revision)
    else:
        async with elsewhere(revision) as server:
            yield connected(stage, server.url)


# What a hand-written server has at hand: it answers by a table of methods, and `initialize` by itself.
SCRIPT = """
import json, os, sys, time
def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
def answer(request, result):
    send(id=request["id"], result=result)
def refuse(request, code=-32601, message="no such method", **more):
    send(id=request["id"], error={"code": code, "message": message, **more})
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
ECHO = [{"name": "echo", "inputSchema": {"type": "object"}}]
def text(words):
    return {"content": [{"type": "text", "text": words}]}
def serve(tools=ECHO, **handlers):
    table = {
        "initialize": lambda request: ABOUT,
        "tools/list": lambda request: {"tools": tools},
        "tools/call": lambda request: text(str(request["params"]["arguments"].get("text"))),
        "ping": lambda request: {},
    } | {name.replace("_", "/"): handler for name, handler in handlers.items()}
    while True:
        request = read()
        if "id" not in request or "method" not in request:
            continue
        handler = table.get(request["method"])
        if handler is None:
            refuse(request)
        else:
            result = handler(request)
            if result is not None:
                answer(request, result)
"""
