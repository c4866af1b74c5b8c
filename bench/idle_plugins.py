"""What plugins cost that do nothing: memory of one, and memory and CPU of two hundred."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from _plugins import Actor, count_events, on_stage, write_plugin
from _side_by_side import Report, options

IDLE = """
from paddock_sdk import Plugin
Plugin(NAME, "1.0.0").run()
"""
BARE = "import json, sys\nfor line in sys.stdin: json.loads(line)\n"
MIB = 1024 * 1024


def pss(pid: int) -> int:
    """The memory a process has for itself and its share of what it shares, in bytes."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            found += [int(child), *descendants(int(child))]
    return found


def cpu_of(pids: list[int]) -> float:
    """Seconds of CPU that these have used so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def measure(folder: Path, count: int, seconds: float, report: Report) -> None:
    (folder / "bare.py").write_text(BARE, encoding="utf-8")
    python = "/usr/bin/python3"
    bare = await asyncio.create_subprocess_exec(
        python, "-I", "-S", str(folder / "bare.py"), stdin=asyncio.subprocess.PIPE
    )
    async with on_stage(count_events()) as stage:
        began = time.perf_counter()
        actors: list[Actor] = []
        for number in range(count):
            name = f"idle-{number}"
            write_plugin(folder / name, name, f"NAME = {name!r}\n{IDLE}", [])
            actors.append(stage.deploy(folder / name))
        for actor in actors:
            status = await stage.supervisor.wait_settled(actor.deployment.key)
            assert status.state == "running", status.reason
        started = time.perf_counter() - began
        own = [actor.status.pid or 0 for actor in actors]
        everything = [os.getpid(), *descendants(os.getpid())]
        everything.remove(bare.pid)
        before, own_before = cpu_of(everything), resource.getrusage(resource.RUSAGE_SELF).ru_utime
        await asyncio.sleep(seconds)
        used = cpu_of(everything) - before
        own_used = resource.getrusage(resource.RUSAGE_SELF).ru_utime - own_before
        plugin = [pss(pid) for pid in own]
        report.row("bare uncaged interpreter", f"{pss(bare.pid) / MIB:.1f} MiB", "", "")
        report.row("one idle plugin's process", f"{statistics.median(plugin) / MIB:.1f} MiB", "", "")
        total = sum(pss(pid) for pid in everything)
        report.row(
            f"{count} plugins with host, warden and cages",
            f"{total / MIB:.0f} MiB ({total / count / MIB:.1f} each)",
            f"{100 * used / seconds:.1f} % of a core ({100 * own_used / seconds:.1f} % ours)",
            f"{started:.1f} s ({started / count * 1000:.0f} ms each)",
        )
    assert bare.stdin is not None
    bare.stdin.close()
    await bare.wait()


def main() -> None:
    given = options(__doc__)
    count, seconds = (8, 2.0) if given.quick else (200, 60.0)
    report = Report(
        "idle_plugins",
        given,
        f"{count} caged Python plugins written with the SDK, all running; memory is PSS. CPU is what all of them used "
        f"in {seconds:g} s without a call; each plugin is asked for its health every 30 s.",
        ["what", "memory", "idle CPU", "start of all"],
    )
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        asyncio.run(measure(Path(folder), count, seconds, report))
    report.finish()


if __name__ == "__main__":
    main()
