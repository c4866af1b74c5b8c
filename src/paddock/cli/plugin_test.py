"""`paddock plugin test`: the wire and the contract of its kind, checked against a plugin in its cage."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.given_secrets import GivenSecrets, secrets_from
from paddock.cli.output import AsJson, document, reporting, result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.authoring.checks.finding import Finding
    from paddock.core.secret import Secret

_STYLES = {"pass": "green", "fail": "red", "skip": "yellow"}


def register(app: typer.Typer) -> None:
    app.command(
        "test", epilog="Examples: paddock plugin test ./my-plugin   ·   paddock plugin test ./my-plugin --effects"
    )(test)


@reporting
def test(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The plugin's folder.", exists=True, file_okay=False)
    ],
    *,
    effects: Annotated[
        bool, typer.Option("--effects", help="Also call what changes something; its cage is still around it.")
    ] = False,
    config: Annotated[
        str, typer.Option("--config", metavar="JSON", help="The plugin's settings; @FILE reads a file.")
    ] = "{}",
    secret: GivenSecrets = None,
    as_json: AsJson = False,
) -> None:
    """Run a plugin in its cage and check its wire, its calls, and the contract of its kind. Ends with 1 if one fails.

    It runs in a temporary home with everything that its manifest asks for. Calls are made with the examples of the
    input schemas, or with values made from them.
    """
    from paddock.cli.call import parameters
    from paddock.cli.event_loop import run

    with tempfile.TemporaryDirectory(prefix="paddock-test-", ignore_cleanup_errors=True) as home:
        name, version, findings = run(
            _checked(
                directory.resolve(),
                Path(home),
                parameters(config),
                secrets_from(secret),
                effects=effects,
                quiet=as_json,
            )
        )
    counts = {verdict: sum(one.verdict == verdict for one in findings) for verdict in _STYLES}
    if as_json:
        document({"name": name, "version": version, "findings": [one.to_value() for one in findings], "counts": counts})
    else:
        result(f"{name} {version}: {counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    if counts["fail"]:
        raise typer.Exit(1)


async def _checked(
    folder: Path, home: Path, config: dict[str, Any], secrets: dict[str, Secret], *, effects: bool, quiet: bool
) -> tuple[str, str, list[Finding]]:
    from paddock.authoring.checks.running import run_checks
    from paddock.authoring.listening import Listening
    from paddock.core.clock import SystemClock
    from paddock.host.workshop.opening import open_workshop
    from paddock.manifest.read import read_package

    listening = Listening(read_package(folder).single(), lambda _event: None, SystemClock())
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    opened = open_workshop(home, folder, listening, environ=environ, tap=listening.tap, config=config, secrets=secrets)
    async with opened as workshop:
        copy = await workshop.look()
        findings = await run_checks(workshop, copy, _quiet if quiet else _show, effects=effects)
    return copy.manifest.name, copy.manifest.version, findings


def _quiet(_finding: Finding) -> None:
    pass


def _show(finding: Finding) -> None:
    import sys

    word = styled(finding.verdict.value.upper(), _STYLES[finding.verdict], stream=sys.stdout)
    why = f": {printable(finding.why, 400)}" if finding.why else ""
    result(f"{word}  {printable(finding.check, 100)}{why}")
    if finding.hint:
        result(f"      → {printable(finding.hint, 300)}")
    sys.stdout.flush()
