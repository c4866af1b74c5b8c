"""A small daemon for tests: launches plugins through the warden as it is told, one JSON line at a time.

Standing alone as a program it can be root or not, can run out of descriptors, and can be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from paddock.cage.errors import CageUnavailable
from paddock.cage.observe.observer import observe
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.spec import BindMount, CageSpec, Learning, ResourceLimits, StandIn
from paddock.cage.warden.client import CagedProcess, WardenClient, open_warden
from paddock.manifest.read import read_package


class Daemon:
    def __init__(self, folder: Path, warden: WardenClient) -> None:
        self._folder = folder
        self._warden = warden
        self._processes: dict[int, CagedProcess] = {}
        self._numbers = itertools.count(1)
        self._compiled: dict[int, CageSpec] = {}

    async def launch(
        self, script: str, limits: dict[str, Any], capabilities: list[str], remove: str | None = None
    ) -> dict[str, Any]:
        """Start a plugin; `remove` is a directory that goes away just before."""
        number = next(self._numbers)
        spec = self._spec(number, script, limits, capabilities)
        if remove is not None:
            os.rmdir(remove)  # noqa: PTH106 - at once, between the two
        return await self._launch(number, spec)

    async def observe(
        self, script: str, capabilities: list[str], stand_ins: list[tuple[str, Any]], limits: dict[str, Any]
    ) -> dict[str, Any]:
        """Run a plugin in a learning cage until it ends: what it printed, what was observed, how it ended."""
        number = next(self._numbers)
        learning = Learning(tuple(StandIn(*one) for one in stand_ins), network=False)
        spec = dataclasses.replace(self._spec(number, script, limits, capabilities), learning=learning)
        process = self._processes[number] = await self._warden.launch(spec)
        async with observe(process, spec.cage_id, None) as observer:
            ended = await process.wait()
            seen = await observer.finish()
        printed = os.read(process.stdout, 65536).decode() + os.read(process.stderr, 65536).decode()
        await self.end(number)
        return {"printed": printed, "seen": dataclasses.asdict(seen), "ended": dataclasses.asdict(ended)}

    async def compile(self, script: str, capabilities: list[str]) -> int:
        """What a launch begins with; `launch_compiled` does the rest."""
        number = next(self._numbers)
        self._compiled[number] = self._spec(number, script, {}, capabilities)
        return number

    async def launch_compiled(self, number: int) -> dict[str, Any]:
        return await self._launch(number, self._compiled.pop(number))

    async def launch_something_that_never_gets_ready(self) -> dict[str, Any]:
        """Launch a cage whose first program hangs before it raises its walls."""
        number = next(self._numbers)
        spec = self._spec(number, "", {}, [])
        stall = self._folder / "stall"
        stall.write_text(f"#!{spec.command[0]}\nimport time\ntime.sleep(600)\n")
        stall.chmod(0o755)
        binds = (*spec.binds, BindMount(str(stall), "/stall"))
        return await self._launch(number, dataclasses.replace(spec, python=None, trampoline="/stall", binds=binds))

    async def launch_with_descriptors(self, script: str, free: int) -> dict[str, Any]:
        """Launch while no more than so many descriptors are free."""
        number = next(self._numbers)
        spec = self._spec(number, script, {}, [])
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        held: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(free):
            os.close(held.pop())
        told = await self._launch(number, spec)
        for descriptor in held:
            os.close(descriptor)
        return told

    async def _launch(self, number: int, spec: CageSpec) -> dict[str, Any]:
        try:
            process = await self._warden.launch(spec)
        except CageUnavailable as error:
            return {"refused": error.error_code, "message": error.message, "hint": error.hint}
        self._processes[number] = process
        return {"number": number, "pid": process.pid}

    async def line(self, number: int) -> str:
        said = b""
        while not said.endswith(b"\n"):
            await _readable(self._processes[number].stdout)
            part = os.read(self._processes[number].stdout, 1)
            if not part:
                os.set_blocking(self._processes[number].stderr, False)
                return f"{said!r} and no more; {os.read(self._processes[number].stderr, 9999)!r}"
            said += part
        return said.decode().strip()

    async def write(self, number: int, text: str) -> None:
        os.write(self._processes[number].stdin, text.encode())

    async def exchange(self, number: int, text: str) -> str | None:
        """Write to its pipes for big bytes, and read what it writes there; None where it has no such pipes."""
        ends = self._processes[number].artifacts
        if ends is None:
            return None
        os.write(ends[1], text.encode())
        await _readable(ends[0])
        return os.read(ends[0], 4096).decode()

    async def end(self, number: int) -> dict[str, Any]:
        """How it ended; then lets go of its pipes."""
        process = self._processes[number]
        ended = await process.wait()
        for descriptor in (process.stdin, process.stdout, process.stderr, *(process.artifacts or ())):
            os.close(descriptor)
        return dataclasses.asdict(ended)

    async def signal(self, number: int, which: int) -> None:
        self._processes[number].signal(which)

    async def kill(self, number: int) -> None:
        self._processes[number].kill()

    async def mechanisms(self) -> dict[str, str]:
        return await self._warden.mechanisms()

    async def give_up(self, script: str, after: float) -> str:
        """Begin a launch, and cancel it after so many seconds."""
        task = asyncio.create_task(self._warden.launch(self._spec(0, script, {}, [])))
        await asyncio.sleep(after)
        task.cancel()
        try:
            process = await task
        except asyncio.CancelledError:
            return "cancelled"
        process.kill()
        await process.wait()
        for descriptor in (process.stdin, process.stdout, process.stderr):
            os.close(descriptor)
        return "too late"

    async def descriptors(self) -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - nothing else happens meanwhile

    def _spec(self, number: int, script: str, limits: dict[str, Any], capabilities: list[str]) -> CageSpec:
        root = self._folder / f"plugin-{number}"
        root.mkdir(exist_ok=True)
        document = {
            "paddock": 1, "name": f"plugin-{number}", "version": "1.0.0", "description": "For tests",
            "runtime": {"command": ["python3", "plugin.py"]}, "capabilities": capabilities,
        }  # fmt: skip
        (root / "paddock.yaml").write_text(json.dumps(document))
        (root / "plugin.py").write_text(script)
        manifest = read_package(root).single()
        return compile_cage(
            cage_id=f"cage-{number}",
            manifest=manifest,
            root=str(root),
            capabilities=manifest.capabilities,
            environment=spawn_environment(manifest, str(root), "info"),
            host_paths=HostPaths(python="/usr/bin/python3"),
            filesystem=DiskFilesystem(),
            limits=ResourceLimits(**limits),
        )


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def serve(folder: Path, trees: Path | None) -> None:
    async with open_warden(trees=trees) as warden:
        daemon = Daemon(folder, warden)
        pending: set[asyncio.Task[None]] = set()

        async def answer(asked: dict[str, Any]) -> None:
            told = await getattr(daemon, asked["do"])(**asked["with"])
            sys.stdout.write(json.dumps({"id": asked["id"], "told": told}) + "\n")
            sys.stdout.flush()

        buffered = b""
        while True:
            await _readable(0)
            part = os.read(0, 65536)
            if not part:
                return
            *lines, buffered = (buffered + part).split(b"\n")
            for line in lines:
                task = asyncio.create_task(answer(json.loads(line)))
                pending.add(task)
                task.add_done_callback(pending.discard)


if __name__ == "__main__":
    serving = serve(Path(sys.argv[1]), Path(sys.argv[1]) if "warm" in sys.argv[2:] else None)
    if "uvloop" in sys.argv[2:]:
        import uvloop

        uvloop.run(serving)
    else:
        asyncio.run(serving)
