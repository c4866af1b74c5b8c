"""One tenant floods the host: how much longer do another's calls take?

Both tenants have the same caged plugin, each in a process of its own, and call it through the whole door. The quiet one
makes one call at a time, at a steady pace. Beside it the other makes calls at the very same pace (that is the baseline:
two tenants at work, neither in a hurry), then a hundred times as many, and then as many as it gets done with many under
way, which is all that the host can do. Phases alternate; of each kind the round counts whose p99 is least, the one that
was disturbed least by whatever else this machine does. Whoever calls runs in the host's own event loop, so what is
measured is the host and its plugins with no HTTP between.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from _home import install, opened, write_package
from _side_by_side import Report, options
from governed_call import FAIR, METHOD, PARAMS, PLUGIN

from paddock.core.call import OPERATOR, Principal
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.manage.enable import enable
from paddock.principals.tenants import add_tenant
from paddock.store.audited_transaction import AuditedTransaction

QUIET, LOUD = Tenant("quiet"), Tenant("loud")
PACE = 0.1  # seconds from one call of the quiet tenant to the next
IN_FLIGHT = 64
CALM, BUSY, FLOOD = "at its pace", "a hundred times", "flooding"
LOADS = {CALM: 1.0, BUSY: 105.0, FLOOD: float("inf")}  # calls of the other for each of the quiet tenant's


@dataclass(frozen=True, slots=True)
class Phase:
    """What became of the quiet tenant's calls, and how many the other made beside them."""

    latencies: tuple[float, ...]
    seconds: float
    beside: int

    @property
    def p50(self) -> float:
        return statistics.median(self.latencies)

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.latencies, n=100, method="inclusive")[98]


class Unheard:
    """Nobody reads the record of how the tenants were made."""

    def publish(self, event: object) -> None: ...


def prepare(folder: Path) -> Path:
    """A home with both tenants, and the plugin enabled for each."""
    home = folder / "home"
    runtime = {"command": ["python3", "./main.py"]}
    files = {"main.py": PLUGIN}
    install(home, write_package(folder / "echo", "echo", files, runtime=runtime, capabilities=[], methods=[METHOD]))
    with open_local_store({"PADDOCK_HOME": str(home)}, home) as opened:
        plugins = opened.plugins
        made, now = PrincipalId("local:bench"), plugins.now()
        for tenant in (QUIET, LOUD):
            plugins.database.write(
                lambda tx, tenant=tenant: add_tenant(
                    AuditedTransaction(tx, plugins.tenant, made, now, Unheard()), tenant
                )
            )
            enable(plugins.for_tenant(tenant), "echo")
    return home


async def paced(call: Callable[[], Awaitable[Any]], count: int, pace: float = PACE) -> list[float]:
    """So many calls, one at a time, each begun a fixed time after the last one was; each one's seconds."""
    latencies: list[float] = []
    due = time.perf_counter()
    for _ in range(count):
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        due += pace
        began = time.perf_counter()
        await call()
        latencies.append(time.perf_counter() - began)
    return latencies


async def phase(
    quiet: Callable[[], Awaitable[Any]], loud: Callable[[], Awaitable[Any]], count: int, times: float
) -> Phase:
    made, callers = 0, 1 if times == 1 else IN_FLIGHT
    pace = PACE * callers / times  # of one caller

    async def one() -> None:
        nonlocal made
        await loud()
        made += 1

    async def calling(begin: float) -> None:
        await asyncio.sleep(begin)
        await paced(one, sys.maxsize, pace)

    crowd = [asyncio.ensure_future(calling(pace * number / callers)) for number in range(callers)]
    began = time.perf_counter()
    try:
        latencies = await paced(quiet, count)
    finally:
        seconds = time.perf_counter() - began
        for task in crowd:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*crowd)
    return Phase(tuple(latencies), seconds, made)


async def measure(folder: Path, rounds: int, count: int) -> dict[str, list[Phase]]:
    found: dict[str, list[Phase]] = {name: [] for name in LOADS}
    async with opened(prepare(folder), FAIR) as host:

        def of(tenant: Tenant) -> Callable[[], Awaitable[Any]]:
            who = Principal(PrincipalId("local:bench"), roles=frozenset({OPERATOR}), kind="local", tenant=tenant)
            return lambda: host.call("echo.echo.it", PARAMS, principal=who)

        quiet, loud = of(QUIET), of(LOUD)
        for number in range(-1, rounds):
            for name, times in LOADS.items():
                run = await phase(quiet, loud, count, times)
                if number >= 0:
                    found[name].append(run)
    return found


def main() -> None:
    given = options(__doc__)
    rounds, count = (3, 60) if given.quick else (5, 200)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        found = uvloop.run(measure(Path(folder), rounds, count))
    report = Report(
        "tenants",
        given,
        f"{count:,} calls of the quiet tenant, one each {PACE * 1000:g} ms, {rounds} rounds in turn; the other makes "
        f"one at a time at that pace, a hundred times as many from {IN_FLIGHT} callers, or from these without a pause.",
        ["the other tenant", "quiet p50", "quiet p99", "its calls a second", "per quiet call"],
    )
    best = {name: min(runs, key=lambda run: run.p99) for name, runs in found.items()}
    for name, run in best.items():
        rate, each = run.beside / run.seconds, run.beside / len(run.latencies)
        report.row(name, f"{run.p50 * 1e3:.2f} ms", f"{run.p99 * 1e3:.2f} ms", f"{rate:,.0f}", f"{each:,.0f}")
    busy, calm = best[BUSY], best[CALM]
    report.at_least("calls of the busy tenant for each of the quiet one's", round(busy.beside / count), 100)
    report.at_most("p99 of the quiet tenant beside it against that beside its like", busy.p99 / calm.p99, 2)
    report.finish()


if __name__ == "__main__":
    main()
