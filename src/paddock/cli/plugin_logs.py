"""`paddock plugin logs`: what a plugin wrote to its standard error."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.daemon import DaemonClient

_LONGEST = 4_000


def register(app: typer.Typer) -> None:
    app.command("logs", epilog="Example: paddock plugin logs memory-markdown --follow")(logs)


@reporting
def logs(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the last lines that a plugin wrote to its log. With --follow and --json, one JSON object a line."""
    from paddock.cli.daemon import running_daemon

    daemon = running_daemon()
    if follow:
        if daemon is None:
            raise typer.BadParameter("needs a running daemon; start one: paddock serve", param_hint="--follow")
        _follow(daemon, name, lines, as_json=as_json)
        return
    kept = _kept(name, lines)
    if as_json:
        document({"name": name, "lines": kept})
        return
    for entry in kept:
        _show(entry)
    if not kept:
        say(f"{name} has written nothing yet")


def _kept(name: str, lines: int) -> list[dict[str, Any]]:
    """From the files, which are the same with and without a daemon."""
    from paddock.cli.opening import reading
    from paddock.host.plugin_logs import last_lines
    from paddock.plugins.registry import require_plugin

    with reading() as host:
        plugin = host.plugins.database.read(lambda tx: require_plugin(tx, name))
        return last_lines(host.directories.state / "logs", plugin.name, lines)


def _follow(daemon: DaemonClient, name: str, lines: int, *, as_json: bool) -> None:
    from paddock.cli.daemon import part

    with daemon.events(f"/plugins/{part(name)}/logs?follow=1&lines={lines}") as events:
        for _, entry in events:
            if as_json:
                result(json.dumps(entry))
            else:
                _show(entry)
            sys.stdout.flush()


def _show(entry: dict[str, Any]) -> None:
    at = str(entry.get("at", ""))[:19].replace("T", " ")
    result(f"{styled(at, 'dim', stream=sys.stdout)}  {printable(str(entry.get('line', '')), _LONGEST)}")
