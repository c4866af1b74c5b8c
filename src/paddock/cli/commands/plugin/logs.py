"""`paddock plugin logs`: a plugin's log."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_result, styled
from paddock.core.error_formats import EXIT_INTERRUPTED
from paddock.host.plugins.logs.log_lines import expand_record, format_for_terminal

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient


@command("logs", examples=["paddock plugin logs slow-count --follow"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.option("--lines", "-n", type=click.IntRange(min=1, max=10_000), default=50, help="The number of lines.")
@click.option("--follow", "-f", is_flag=True, help="Print new lines until Ctrl-C.")
@options.tenant
@options.as_json
def logs(name: str, *, lines: int, follow: bool, tenant: str, as_json: bool) -> None:
    """Show the last lines of a plugin's log. With --follow and --json: one JSON object per line.

    Each JSON object has a `line`; lines written by the SDK also have `level`, `message` and `fields`.
    """
    from paddock.cli.client.api_client import open_client, plugin_path, require_daemon

    address = f"{plugin_path(name)}/logs?lines={lines}"
    if follow:
        try:
            _follow(require_daemon("--follow", tenant), f"{address}&follow=1", as_json=as_json)
        except KeyboardInterrupt:  # the normal end; no message
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
        return
    with open_client(tenant) as client:
        entries = client.get(address)["lines"]
    if as_json:
        print_json({"name": name, "lines": [expand_record(entry) for entry in entries]})
        return
    for entry in entries:
        _print_log_line(entry)
    if not entries:
        print_message(f"{name} has written nothing yet")


def _follow(daemon: ApiClient, address: str, *, as_json: bool) -> None:
    with daemon.stream_events(address) as events:
        for _, entry in events:
            if as_json:
                print_result(json.dumps(expand_record(entry)))
            else:
                _print_log_line(entry)
            sys.stdout.flush()


def _print_log_line(entry: dict[str, Any]) -> None:
    timestamp = str(entry.get("at", ""))[:19].replace("T", " ")
    first, *rest = format_for_terminal(str(entry.get("line", "")))
    print_result(f"{styled(timestamp, 'dim', stream=sys.stdout)}  {first}")
    for line in rest:
        print_result(f"    {line}")
