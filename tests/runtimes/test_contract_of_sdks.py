"""The contract of `contract.py`, run against what authors write with each SDK, and against the Kernel's agents."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace
from tests.fixtures.packages import write_file, write_json
from tests.runtime.stage import Stage, patiently
from tests.runtimes.contract import KnowsTheBound, OneAtATime, ProcessPerCall
from tests.runtimes.test_contract import TOOLS, NativePlayer
from tests.runtimes.test_python_code import kernel
from tests.sdk_typescript.node import BUILT_SDK, needs_node

ABOUT = {
    "paddock": 1,
    "name": "actor",
    "version": "1.0.0",
    "description": "An actor",
    "capabilities": [],
    "tools": [{"name": name, "effects": ["read_only"]} for name in TOOLS],
}

PYTHON = """
import os, sys, time
from paddock_sdk import Plugin, PluginFault
plugin = Plugin("actor", "1.0.0")
def note(words):
    print(words, file=sys.stderr, flush=True)
@plugin.tool
def echo(params, context):
    return {"said": params["text"]}
@plugin.tool
def fail(params, context):
    raise PluginFault("it broke")
@plugin.tool
def slow(params, context):
    for step in (1, 2, 3):
        plugin.progress(step, 3)
    return {"said": "done"}
@plugin.tool
def hang(params, context):
    note("hang began")
    try:
        while True:
            plugin.check_cancelled()
            time.sleep(0.01)
    finally:
        note("hang was stopped")
@plugin.tool
def crash(params, context):
    os._exit(3)
@plugin.tool
def big(params, context):
    return {"said": "x" * 5_000_000}
plugin.run()
"""

TYPESCRIPT = """
import { createPlugin, PluginFault } from "./paddock-sdk/index.js";
const plugin = createPlugin({ name: "actor", version: "1.0.0" });
plugin.tool("echo", ({ text }) => ({ said: text }));
plugin.tool("fail", () => { throw new PluginFault("it broke"); });
plugin.tool("slow", (_params, call) => {
  for (const step of [1, 2, 3]) call.progress(step, 3);
  return { said: "done" };
});
plugin.tool("hang", async (_params, call) => {
  process.stderr.write("hang began\\n");
  await new Promise((stop) => call.signal.addEventListener("abort", stop));
  process.stderr.write("hang was stopped\\n");
  call.signal.throwIfAborted();
});
plugin.tool("crash", () => process.exit(3));
plugin.tool("big", () => ({ said: "x".repeat(5_000_000) }));
plugin.start();
"""

AGENT = """
import os, sys
from paddock_sdk import PluginFault
async def hang():
    import asyncio  # late: what loads quickly answers quickly
    print("hang began", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("hang was stopped", file=sys.stderr, flush=True)
def slow():
    for step in (1, 2, 3):
        yield {"type": "progress", "progress": step, "total": 3}
    return {"said": "done"}
def run(call):
    match call["do"]:
        case "echo":
            return {"said": call["text"]}
        case "fail":
            raise PluginFault("it broke")
        case "slow":
            return slow()
        case "hang":
            return hang()
        case "crash":
            os._exit(3)
        case "big":
            return {"said": "x" * 5_000_000}
"""


class TestThePythonSdk(OneAtATime):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        root = stage.folder / "plugin-actor"
        write_json(root / "paddock.yaml", {**ABOUT, "runtime": {"command": ["python3", "main.py"]}})
        write_file(root / "main.py", PYTHON)
        yield NativePlayer(stage.deploy(root))


@needs_node
class TestTheTypeScriptSdk(KnowsTheBound):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        root = stage.folder / "plugin-actor"
        write_json(root / "paddock.yaml", {**ABOUT, "runtime": {"command": ["node", "main.mjs"]}})
        write_file(root / "main.mjs", TYPESCRIPT)
        write_json(root / "package.json", {"type": "module"})
        shutil.copytree(BUILT_SDK, root / "paddock-sdk")
        yield NativePlayer(stage.deploy(root))


class AgentPlayer(NativePlayer):
    """An agent has one thing to call, and is told what to do."""

    async def said(self, name: str, payload: dict[str, Any] | None = None, *, timeout_sec=None, on_event=None) -> str:
        stage = self.actor.stage
        # Each of many calls at once makes a process and loads the agent, which takes long where the machine is busy.
        spec = replace(self.actor.manifest.callables[0], timeout_sec=timeout_sec or 60)
        asked = {"do": name, **(payload or {})}
        call = stage.supervisor.call(self.actor.key, spec, asked, stage.context(), on_event=on_event)
        return (await patiently(call))["said"]


class TestAnAgentOfTheKernel(ProcessPerCall):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        yield AgentPlayer(stage.deploy(kernel(stage.folder / "plugin-actor", "agent", AGENT)))
