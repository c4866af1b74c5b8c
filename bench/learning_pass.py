"""How long one pass of a learning cage takes, against the server's own start in its ordinary cage."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from _home import install, opened
from _side_by_side import Report, Times, milliseconds, options

from paddock.cage.spec import CageSpec, Learning
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.host.learn.learn_service import LearnService, _find_subject
from paddock.runtime.deployment import Deployment

GOAL = 1.5
SERVERS: Mapping[str, str] = {"mcp-server-time": "pypi:mcp-server-time"}
NODE_SERVERS: Mapping[str, str] = {"server-everything": "npm:@modelcontextprotocol/server-everything"}


def main() -> None:
    given = options(__doc__)
    servers = {**SERVERS, **(NODE_SERVERS if shutil.which("npm") else {})}
    report = Report(
        "learning_pass",
        given,
        "From the launch until the server has said which tools it offers and has ended. A learning cage has the same "
        "walls, and an observer is asked about each call that names a file, a program or an address. One host starts "
        "the server in either cage, in turn. Ratios are of the fastest starts.",
        ["server", "own start", "a pass", "own start, median", "a pass, median", "against its own start"],
    )
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        install(home, *servers.values(), enabled=False)
        asyncio.run(_measure(home, list(servers), report, rounds=3 if given.quick else 15))
    report.finish()


async def _measure(home: Path, names: list[str], report: Report, rounds: int) -> None:
    async with opened(home, {"PADDOCK_HOME": str(home)}) as host:
        for name in names:
            own, learned = await _alternate(host, name, rounds)
            shown = (own.best, learned.best, own.median, learned.median)
            ratio = learned.best / own.best
            report.row(name, *(milliseconds(seconds) for seconds in shown), f"{ratio:.2f}×")
            report.at_most(f"a pass of {name} against its own start", ratio, GOAL)


async def _alternate(host: Host, name: str, rounds: int) -> tuple[Times, Times]:
    """Start the server in its own cage and in a learning cage, in changing order."""
    service = host.plugins.learning
    deployment = (await service._store.run(lambda store: _find_subject(store, name, ()), DEFAULT_TENANT)).deployment
    cages = [(await service._preparer.prepare(deployment, mode)).start_spec.target for mode in (None, Learning())]
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(-1, rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            cage = cages[which]
            assert isinstance(cage, CageSpec)
            spent = await _start(
                service, deployment, dataclasses.replace(cage, cage_id=f"{cage.cage_id}-{number}-{which}")
            )
            if number >= 0:  # the first of each reads its files from the disk
                seconds[which].append(spent)
    return Times(tuple(seconds[0])), Times(tuple(seconds[1]))


async def _start(service: LearnService, deployment: Deployment, cage: CageSpec) -> float:
    began = time.perf_counter()
    outcome = await service._runner.run(deployment, cage, {}, service._publish_for(DEFAULT_TENANT))
    seconds = time.perf_counter() - began
    assert outcome.answered, outcome.failure
    return seconds


if __name__ == "__main__":
    main()
