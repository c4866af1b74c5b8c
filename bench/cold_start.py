"""How long a plugin takes from nothing to its first byte, caged, against an interpreter without any cage."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

from _side_by_side import Report, alternate, milliseconds, options

from paddock.cage.linux import subtree_pids
from paddock.cage.plan.compile import PROGRAM_PATH, HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import CagedProcess, WardenClient, open_warden
from paddock.manifest.read import read_package

SOURCE = Path(__file__).parents[1] / "src"
PYTHON = shutil.which("python3", path=PROGRAM_PATH) or sys.executable
IDLE = 10  # plugins whose memory is measured together
PAUSE = 0.05  # seconds for the warden to get ready again, and not in the next one's time

MANIFEST = """
paddock: 1
name: {name}
version: 1.0.0
description: For measuring
runtime: {{command: [python3, main.py]}}
"""
PLAIN = "print(1, flush=True)\nimport sys\nsys.stdin.read()\n"
WITH_SDK = "import paddock_sdk\n" + PLAIN
WITH_ASYNCIO = "import asyncio\n" + PLAIN

COLD = ("a script", "with the SDK")
SCRIPTS = {"a script": PLAIN, "with the SDK": WITH_SDK, "with asyncio": WITH_ASYNCIO}

Start = Callable[[], float]


def main() -> None:
    given = options(__doc__)
    rounds = 5 if given.quick else 100
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder, asyncio.Runner() as runner:
        trees = Path(folder).resolve()
        _compiled_sdk(trees)
        specs = {
            script: _installed(trees, f"plugin-{number}", script) for number, script in enumerate(SCRIPTS.values())
        }
        opened = AsyncExitStack()
        cold, warm = runner.run(_wardens(opened, trees))
        try:
            _wait_until_warm(runner, warm, specs[PLAIN])
            times = alternate(
                {
                    "uncaged: python -I -S -c 'print(1)'": _uncaged("-I", "-S", "-c", PLAIN),
                    "uncaged: python main.py": _uncaged(str(trees / "plugin-0" / "main.py")),
                    **{f"caged, warm: {name}": _caged(runner, warm, specs[script]) for name, script in SCRIPTS.items()},
                    **{f"caged, cold: {name}": _caged(runner, cold, specs[SCRIPTS[name]]) for name in COLD},
                },
                rounds=rounds,
                warm_up=2,
            )
            memory = {
                way: _idle_memory(runner, warden, specs[WITH_SDK]) for way, warden in (("warm", warm), ("cold", cold))
            }
        finally:
            runner.run(opened.aclose())
    report = Report(
        "cold_start",
        given,
        "From the launch to the first byte that the script writes, through daemon and warden, with every wall. Ratios "
        f"are of the fastest runs. {IDLE} idle plugins with the SDK, and everything else below the warden, take "
        f"{memory['warm'] / IDLE:.1f} MB (PSS) each when warm, {memory['cold'] / IDLE:.1f} MB when cold.",
        ["start", "fastest", "median", "against the bare interpreter"],
    )
    bare = times["uncaged: python -I -S -c 'print(1)'"]
    for name, measured in times.items():
        report.row(
            name, milliseconds(measured.best), milliseconds(measured.median), f"{measured.best / bare.best:.2f}×"
        )
    report.at_most("warm start", times["caged, warm: a script"].best / bare.best, 1.2)
    report.at_most("cold start", times["caged, cold: a script"].best / bare.best, 4.0)
    report.finish()


def _compiled_sdk(trees: Path) -> None:
    """The SDK with its bytecode, as an installer leaves it."""
    copy = shutil.copytree(SOURCE / "paddock_sdk", trees / "paddock_sdk")
    subprocess.run([PYTHON, "-m", "compileall", "-q", str(copy)], check=True)


def _installed(trees: Path, name: str, script: str) -> CageSpec:
    root = trees / name
    root.mkdir()
    (root / "paddock.yaml").write_text(MANIFEST.format(name=name))
    (root / "main.py").write_text(script)
    manifest = read_package(root).single()
    return compile_cage(
        cage_id=name,
        manifest=manifest,
        root=str(root),
        capabilities=(),
        environment=spawn_environment(manifest, str(root), "info"),
        host_paths=HostPaths(python=PYTHON, sdk=str(trees)),
        filesystem=DiskFilesystem(),
    )


async def _wardens(opened: AsyncExitStack, trees: Path) -> tuple[WardenClient, WardenClient]:
    return (
        await opened.enter_async_context(open_warden()),
        await opened.enter_async_context(open_warden(trees=trees)),
    )


def _uncaged(*arguments: str) -> Start:
    def once() -> float:
        begun = time.perf_counter()
        with subprocess.Popen([PYTHON, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            spent = time.perf_counter() - begun
            process.communicate()
        time.sleep(PAUSE)
        return spent

    return once


def _caged(runner: asyncio.Runner, warden: WardenClient, spec: CageSpec) -> Start:
    def once() -> float:
        begun = time.perf_counter()
        with _running(runner, warden, spec):
            spent = time.perf_counter() - begun
        time.sleep(PAUSE)
        return spent

    return once


@contextmanager
def _running(runner: asyncio.Runner, warden: WardenClient, spec: CageSpec) -> Iterator[CagedProcess]:
    """A plugin that has written its first byte."""
    process = runner.run(warden.launch(spec))
    try:
        select.select([process.stdout], [], [], 30)
        assert os.read(process.stdout, 1) == b"1"
        yield process
    finally:
        os.close(process.stdin)
        runner.run(_ended(process))
        for descriptor in (process.stdout, process.stderr):
            os.close(descriptor)


async def _ended(process: CagedProcess) -> None:
    await process.wait()


def _wait_until_warm(runner: asyncio.Runner, warden: WardenClient, spec: CageSpec) -> None:
    for _ in range(100):
        with _running(runner, warden, spec) as process:
            status = Path(f"/proc/{process.pid}/status").read_text()
            parent = status.partition("PPid:")[2].split()[0]
            if Path(f"/proc/{parent}/comm").read_text().strip() != "bwrap":
                return
        time.sleep(PAUSE)
    raise SystemExit("nothing is ever started warm here")


def _idle_memory(runner: asyncio.Runner, warden: WardenClient, spec: CageSpec) -> float:
    """Megabytes that some idle plugins take, with everything below the warden; each shared page counts once."""
    with ExitStack() as idle:
        plugins = [idle.enter_context(_running(runner, warden, spec)) for _ in range(IDLE)]
        time.sleep(10 * PAUSE)
        return sum(_pss(pid) for pid in subtree_pids(_warden_above(plugins[0].pid))[1:]) / 1000


def _warden_above(pid: int) -> int:
    while "warden/server.py" not in Path(f"/proc/{pid}/cmdline").read_text():
        pid = int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])
    return pid


def _pss(pid: int) -> int:
    """The process's share of memory, in kB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
