"""A governed call against the runtime's bare call, in one run: what schema, rules, ledger and output check add.

Both go to the same caged plugin. Bare is the supervisor's own call; governed is the whole door: the parameters' schema,
the decision, one entry in the ledger, written and synced in batches beside it, and the answer's schema; all entries are
on disk when the clock stops. The ledger's own rate stands beside them: no door is quicker than what it writes to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import uvloop
from _calls import THIS_THREAD, Measured, many_at_once, on_two_cores, one_at_a_time
from _home import install, opened, write_package
from _side_by_side import Report, options

from paddock.core.events.calls import CallEnded
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.write.writer import LedgerWriter

FAIR = {"PADDOCK_LIMITS_CPU_WEIGHT": "1024"}
IN_FLIGHT = 64
WANTED = 15_000  # calls a second, where the ledger alone writes as many
BARE_1, GOVERNED_1, BARE, GOVERNED = "bare 1", "governed 1", "bare 64", "governed 64"
ENTRIES = "entries of the ledger alone"
PARAMS = {"text": "hello", "count": 3}
PLUGIN = """
from paddock_sdk import Plugin
plugin = Plugin("echo", "1.0.0")
@plugin.method("echo.it")
def echo(params, context):
    return {"ok": True}
plugin.run()
"""
METHOD = {
    "name": "echo.it",
    "effects": ["read_only"],
    "input_schema": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["text"],
    },
    "output_schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
}


async def measure(folder: Path, rounds: int, few: int, many: int) -> dict[str, list[Measured]]:
    package = write_package(
        folder / "echo",
        "echo",
        {"main.py": PLUGIN},
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[],
        methods=[METHOD],
    )
    install(folder / "home", package)
    found: dict[str, list[Measured]] = {name: [] for name in (BARE_1, GOVERNED_1, BARE, GOVERNED, ENTRIES)}
    async with opened(folder / "home", FAIR) as host:
        context = host.operator_context(None)
        target = host._gate.catalogue(DEFAULT_TENANT).find("echo.echo.it")  # pyright: ignore[reportPrivateUsage]
        supervisor = host._gate.supervisor  # pyright: ignore[reportPrivateUsage]

        async def bare() -> Any:
            return await supervisor.call(target.key, target.spec, PARAMS, context)

        async def governed() -> Any:
            return await host.call("echo.echo.it", PARAMS, context=context)

        ledger = host._gate.audit_log  # pyright: ignore[reportPrivateUsage]
        assert isinstance(ledger, LedgerWriter)
        plugin = await supervisor.wait_settled(target.key)
        assert plugin.pid is not None
        for number in range(-1, rounds):
            with on_two_cores([THIS_THREAD], [plugin.pid]):
                alone = {BARE_1: await one_at_a_time(bare, few), GOVERNED_1: await one_at_a_time(governed, few)}
            runs = alone | {
                BARE: await many_at_once(bare, many, IN_FLIGHT),
                GOVERNED: await many_at_once(governed, many, IN_FLIGHT, ledger.flush),
                ENTRIES: await many_at_once(taking(ledger), many, IN_FLIGHT, ledger.flush),
            }
            if number >= 0:
                for name, run in runs.items():
                    found[name].append(run)
    return found


def taking(ledger: LedgerWriter) -> Callable[[], Awaitable[None]]:
    """Puts one entry after the other into the ledger, as quickly as it takes them."""
    event = CallEnded(
        name="echo", method="echo.it", version="1.0.0", digest="sha256:00", effects=("read_only",), request_id="req_1",
        operator_id=None, project_id=None, session_id=None, agent_path=None, owner=None, payload_hash="sha256:11",
        result_hash="sha256:22", status="succeeded", success=True, duration_ms=0.1, metrics={}, plugin_metrics=None,
        events_hash=None, error_code=None, error_category=None, error_message=None, nondeterminism=None, model=None,
        decision="allow", policies=("operators-may-call",), policy_version="pol", approval=None, stands_for=(),
    )  # fmt: skip

    async def take() -> None:
        if ledger.overloaded("default"):
            await ledger.wait_for_room("default")
        ledger.enqueue(event, "default", call="call_1", request="req_1", principal="local:operator")

    return take


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (2, 200, 2_000) if given.quick else (20, 1_000, 8_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        found = uvloop.run(measure(Path(folder), rounds, few, many))
    report = Report(
        "governed_call",
        given,
        f"{few:,} calls one after another, {many:,} with {IN_FLIGHT} under way, {rounds} rounds in turn. One after "
        "another, host and plugin have a core each, and p50 is held against that of the same round. CPU is that of the "
        "host's process with all its threads, the ledger's writer among them.",
        ["what", "p50", "calls a second", "CPU a call"],
    )
    cpu = {name: min(run.cpu / run.calls for run in runs) * 1e6 for name, runs in found.items()}
    rate = {name: max(run.rate for run in runs) for name, runs in found.items()}
    # Waking the plugin up is most of a bare call and changes from second to second: they are compared round by round.
    p50 = {name: median(run.p50 for run in found[name]) for name in (BARE_1, GOVERNED_1)}
    ratio = median(ours.p50 / bare.p50 for bare, ours in zip(found[BARE_1], found[GOVERNED_1], strict=True))
    for name in found:
        latency = f"{p50[name] * 1e6:.0f} µs" if name in p50 else ""
        report.row(name, latency, f"{rate[name]:,.0f}", f"{cpu[name]:.1f} µs")
    report.at_most("CPU that the door adds to a call", cpu[GOVERNED] - cpu[BARE], 80, unit=" µs")
    report.at_most("sequential p50 against the bare call", ratio, 1.5)
    if rate[ENTRIES] >= WANTED:
        report.at_least(f"calls a second at {IN_FLIGHT}", rate[GOVERNED], WANTED)
    else:
        report.says(
            f"calls a second at {IN_FLIGHT}: {rate[GOVERNED]:,.0f}, which is {rate[GOVERNED] / rate[ENTRIES]:.0%} of "
            f"what the ledger alone writes here (goal: {WANTED:,} where that allows it)"
        )
    report.finish()


if __name__ == "__main__":
    main()
