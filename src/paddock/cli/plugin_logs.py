"""`paddock plugin logs`: what a plugin wrote to its standard error."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.outward import EXIT_INTERRUPTED
from paddock.host.log_records import for_machines, in_words

if TYPE_CHECKING:
    from paddock.cli.daemon import DaemonClient


def register(app: typer.Typer) -> None:
    app.command("logs", epilog="Example: paddock plugin logs slow-count --follow")(logs)


@reporting
def logs(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the last lines that a plugin wrote to its log. With --follow and --json, one JSON object a line.

    In JSON each has its `line`, and what the SDK wrote also its `level`, `message` and `fields`.
    """
    from paddock.cli.daemon import require_daemon, running_daemon

    if follow:
        try:
            _follow(require_daemon("--follow", tenant), name, lines, as_json=as_json)
        except KeyboardInterrupt:  # how it is meant to end, and no line of its own
            raise typer.Exit(EXIT_INTERRUPTED) from None
        return
    daemon = running_daemon(tenant=tenant)
    kept = _kept(name, tenant, lines) if daemon is None else _kept_by(daemon, name, lines)
    if as_json:
        document({"name": name, "lines": [for_machines(entry) for entry in kept]})
        return
    for entry in kept:
        _show(entry)
    if not kept:
        say(f"{name} has written nothing yet")


def _kept(name: str, tenant: str, lines: int) -> list[dict[str, Any]]:
    """From the files, where nobody writes to them."""
    from paddock.cli.opening import reading
    from paddock.host.log_files import last_lines, log_name
    from paddock.plugins.registry import require_plugin

    with reading(tenant) as host:
        plugin = host.plugins.database.read(lambda tx: require_plugin(tx, name))
        return last_lines(host.directories.state / "logs", log_name(tenant, plugin.name), lines)


def _kept_by(daemon: DaemonClient, name: str, lines: int) -> list[dict[str, Any]]:
    """From the daemon, which may have some that are not in the files yet."""
    from paddock.cli.opening import in_path

    return daemon.get(f"/plugins/{in_path(name)}/logs?lines={lines}")["lines"]


def _follow(daemon: DaemonClient, name: str, lines: int, *, as_json: bool) -> None:
    from paddock.cli.opening import in_path

    with daemon.events(f"/plugins/{in_path(name)}/logs?follow=1&lines={lines}") as events:
        for _, entry in events:
            if as_json:
                result(json.dumps(for_machines(entry)))
            else:
                _show(entry)
            sys.stdout.flush()


def _show(entry: dict[str, Any]) -> None:
    at = str(entry.get("at", ""))[:19].replace("T", " ")
    first, *rest = in_words(str(entry.get("line", "")))
    result(f"{styled(at, 'dim', stream=sys.stdout)}  {first}")
    for line in rest:
        result(f"    {line}")
