"""The contract of `contract.py`, run against Python code in a worker and against functions of the application."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.fixtures.packages import write_file, write_json
from tests.runtime.stage import Stage, patiently
from tests.runtimes.contract import KnowsTheBound
from tests.runtimes.test_contract import TOOLS, NativePlayer

from paddock.core.errors import PluginError
from paddock.runtime.protocols.embedded.plugin import EmbeddedCall

DECLARED = [{"name": name, "effects": ["read_only"]} for name in TOOLS]
ABOUT = {"paddock": 1, "name": "actor", "version": "1.0.0", "description": "An actor", "tools": DECLARED}

CODE = """
import asyncio, os, sys
from paddock_sdk import PluginFault
async def echo(params, context):
    return {"said": params["text"]}
async def fail(params, context):
    raise PluginFault("it broke")
async def slow(params, context):
    for step in (1, 2, 3):
        yield {"type": "progress", "progress": step, "total": 3}
    yield {"type": "result", "result": {"said": "done"}}
async def hang(params, context):
    print("hang began", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("hang was stopped", file=sys.stderr, flush=True)
async def crash(params, context):
    os._exit(3)
async def big(params, context):
    return {"said": "x" * 5_000_000}
"""


class TestPythonCodeInAWorker(KnowsTheBound):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        root = stage.folder / "plugin-actor"
        entrypoints = {name: f"tools:{name}" for name in TOOLS}
        write_json(root / "paddock.yaml", {**ABOUT, "runtime": {"python": entrypoints}, "capabilities": []})
        write_file(root / "tools.py", CODE)
        yield NativePlayer(stage.deploy(root))


@dataclass
class EmbeddedPlayer(NativePlayer):
    """Functions of this very process."""

    happened: dict[str, asyncio.Event]

    async def logged(self, words: str) -> None:
        await patiently(self.happened[words].wait())


class TestFunctionsOfTheApplication(KnowsTheBound):
    @asynccontextmanager
    async def playing(self, stage: Stage):
        happened = {"hang began": asyncio.Event(), "hang was stopped": asyncio.Event()}

        def echo(text: str) -> dict[str, Any]:
            return {"said": text}

        def fail() -> None:
            raise PluginError("it broke")

        def slow(call: EmbeddedCall) -> dict[str, Any]:
            for step in (1, 2, 3):
                call.progress(step, 3)
            return {"said": "done"}

        async def hang() -> None:
            happened["hang began"].set()
            try:
                await asyncio.Event().wait()
            finally:
                happened["hang was stopped"].set()

        def big() -> dict[str, Any]:
            return {"said": "x" * 5_000_000}

        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        functions = {"echo": echo, "fail": fail, "slow": slow, "hang": hang, "crash": lambda: None, "big": big}
        yield EmbeddedPlayer(stage.embed(json.loads(json.dumps(ABOUT)), functions), happened)

    # A function cannot end its process and leave us here to tell of it.
    test_when_it_crashes_calls_under_way_fail_and_it_is_started_again = None  # pyright: ignore[reportAssignmentType]
