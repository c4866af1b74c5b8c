"""`paddock plugin test`: check a plugin in its cage against the protocol and the contract of its kind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.secret_input import read_secret_files
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.authoring.checks.plugin_under_test import CheckResult
    from paddock.core.secret import Secret

_VERDICT_STYLES = {"pass": "green", "fail": "red", "skip": "yellow"}


@command("test", examples=["paddock plugin test ./my-plugin", "paddock plugin test ./my-plugin --effects"])
@click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of the plugin.",
)
@click.option("--effects", is_flag=True, help="Also call tools that have effects; they stay inside the cage.")
@click.option("--config", default="{}", metavar="JSON", help="The plugin's configuration; @FILE reads a file.")
@options.secret
@options.as_json
def test(directory: Path, *, effects: bool, config: str, secret: tuple[str, ...], as_json: bool) -> None:
    """Run a plugin in its cage and test its protocol, its calls, and the contract of its kind. Exits 1 on a failure.

    The plugin runs in a temporary home with all capabilities that its manifest requests. Calls use the examples in the
    input schemas, or values generated from them.
    """
    from paddock.cli.client.event_loop import run_async
    from paddock.cli.commands.call.make import read_parameters

    with tempfile.TemporaryDirectory(prefix="paddock-test-", ignore_cleanup_errors=True) as home:
        name, version, results = run_async(
            _run_checks(
                directory.resolve(),
                Path(home),
                read_parameters(config),
                read_secret_files(secret),
                effects=effects,
                quiet=as_json,
            )
        )
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in _VERDICT_STYLES}
    if as_json:
        print_json(
            {"name": name, "version": version, "findings": [result.to_value() for result in results], "counts": counts}
        )
    else:
        print_result(f"{name} {version}: {counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
        if counts["skip"] and not effects:
            print_result("      → --effects also calls tools that have effects; they stay inside the cage")
    if counts["fail"]:
        raise click.exceptions.Exit(1)


async def _run_checks(
    folder: Path, home: Path, config: dict[str, Any], secrets: dict[str, Secret], *, effects: bool, quiet: bool
) -> tuple[str, str, list[CheckResult]]:
    from paddock.authoring.checks.run import run_checks
    from paddock.authoring.traffic import DevEventReporter
    from paddock.core.clock import SystemClock
    from paddock.host.dev.open_dev_host import open_dev_host
    from paddock.manifest.read import read_package

    reporter = DevEventReporter(read_package(folder).single(), lambda _event: None, SystemClock())
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    dev_host_context = open_dev_host(
        home, folder, reporter, environ=environ, tap=reporter.new_decoder, config=config, secrets=secrets
    )
    async with dev_host_context as dev_host:
        snapshot = await dev_host.take_snapshot()
        results = await run_checks(
            dev_host, snapshot, _ignore_result if quiet else _print_check_result, effects=effects
        )
    return snapshot.manifest.name, snapshot.manifest.version, results


def _ignore_result(_result: CheckResult) -> None:
    pass


def _print_check_result(result: CheckResult) -> None:
    import sys

    verdict = styled(result.verdict.value.upper(), _VERDICT_STYLES[result.verdict], stream=sys.stdout)
    reason = f": {printable(result.why, 400)}" if result.why else ""
    print_result(f"{verdict}  {printable(result.check, 100)}{reason}")
    if result.hint:
        print_result(f"      → {printable(result.hint, 300)}")
    sys.stdout.flush()
