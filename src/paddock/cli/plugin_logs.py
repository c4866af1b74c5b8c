"""`paddock plugin logs`: what a plugin wrote to its standard error."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from paddock.cli.log_lines import LEVELS
from paddock.cli.output import AsJson, document, reporting, result, say, styled
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.outward import EXIT_INTERRUPTED
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.daemon import DaemonClient

_LONGEST = 4_000
_DEEPEST = 50  # levels of a field that is told to machines
_MOST_STEPS = 200  # of a traceback; the last say most
_IN_FRONT = ("time", "level", "plugin", "message")


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


def in_words(line: str) -> list[str]:
    """What a plugin wrote, as lines that a terminal may show: a record of the SDK in words, anything else as it is.

    Only the first belongs at the margin: what follows it came out of the same line, and must not look like another.
    """
    record = _record(line)
    if record is None:
        return [printable(line, _LONGEST)]
    steps: list[str] = record.pop("traceback").splitlines() if isinstance(record.get("traceback"), str) else []
    fields = "".join(f" {name}={_value(value)}" for name, value in record.items() if name not in _IN_FRONT)
    first = printable(f"{record['level']} {record['message']}{fields}", _LONGEST)
    return [first, *(printable(step, _LONGEST) for step in steps[-_MOST_STEPS:])]


def for_machines(entry: dict[str, Any]) -> dict[str, Any]:
    """A line of the log with its level, message and fields beside it, where it is a record of the SDK."""
    record = _record(str(entry.get("line", "")))
    if record is None:
        return entry
    fields = {name: value for name, value in record.items() if name not in _IN_FRONT}
    if not _writable(fields):
        return entry
    return {**entry, "level": record["level"], "message": record["message"], "fields": fields}


def _writable(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether it can be written as JSON again: not too deep, and no number that JSON lacks."""
    if isinstance(value, float):
        return math.isfinite(value)
    if not isinstance(value, dict | list):
        return True
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return depth > 0 and all(_writable(one, depth - 1) for one in inner)


def _record(line: str) -> dict[str, Any] | None:
    """The record that the SDK wrote, if it is one."""
    if not line.startswith("{"):
        return None
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(read.get("message"), str) and read.get("level") in LEVELS
    return cast("dict[str, Any]", read) if known else None


def _value(value: Any) -> str:
    if isinstance(value, str) and value and not any(mark in value for mark in ' "='):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # reading stops a little deeper than writing
        return "…"
