"""`paddock call unresolved …`: calls whose outcome is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.commands.call import resolve
from paddock.cli.commands.call.resolve import print_call_values, unresolved_call_argument
from paddock.cli.output.action_text import remedy_lines_of, tenant_option
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled
from paddock.core.printable import count_text, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

app = PaddockGroup("unresolved", help="List calls whose outcome is unknown, and resolve them.")

_COLUMNS = ("CALL", "WHAT", "KEY", "STARTED", "BY", "RECOVERY", "WHY")
_HIDDEN_WHEN_NARROW = ("BY", "STARTED", "RECOVERY", "KEY")  # on a narrow terminal


@app.command("list", examples=["paddock call unresolved list --json", "paddock call unresolved list --resolved"])
@click.option("--resolved", is_flag=True, help="List resolved calls instead, newest first.")
@click.option("--lines", "-n", "count", type=click.IntRange(min=1, max=1_000), default=100, help="The number of calls.")
@click.option("--after", metavar="CALL", help="Only calls after this one.")
@options.tenant
@options.as_json
def list_(*, resolved: bool, count: int, after: str | None, tenant: str, as_json: bool) -> None:
    """List calls whose outcome is unknown, oldest first."""
    from paddock.cli.client.api_client import open_client, path_segment

    query = f"limit={count}{'&resolved=1' if resolved else ''}"
    query += f"&after={path_segment(after)}" if after is not None else ""
    with open_client(tenant) as client:
        page = client.get(f"/calls/unresolved?{query}")
    unresolved, next_id = page["calls"], page["next"]
    if as_json:
        print_json({"tenant": tenant, "doubts": unresolved, "next": next_id})
        return
    if not unresolved:
        print_message("nothing was in doubt" if resolved else "nothing is in doubt")
        return
    rows = [[printable(cell, 100) for cell in _table_row(record)] for record in unresolved]
    for line in format_table(_COLUMNS, rows, hideable=_HIDDEN_WHEN_NARROW):
        print_result(line)
    if next_id:
        print_message(f"there may be more: --after {next_id}")
    print_message(f"look at one: paddock call unresolved show {unresolved[0]['call_id']}{tenant_option(tenant)}")


def _table_row(record: Mapping[str, Any]) -> list[str]:
    name, started = f"{record['plugin']} {record['callable']}", (record["started_at"] or "")[:19]
    key = "" if record["key"] == record["call_id"] else record["key"]
    error: Mapping[str, Any] = record["error"] or {}
    reason = error.get("message", "") if record["resolution"] is None else _resolution_text(record)
    return [record["call_id"], name, key, started, record["principal"] or "", record["recovery"], reason]


def _resolution_text(record: Mapping[str, Any]) -> str:
    """Describe the outcome, and who determined it."""
    happened = "has happened" if record["state"] == "succeeded" else "has not happened"
    return f"{happened}, says {record['resolved_by'] or record['resolution']}"


@app.command("show", examples=["paddock call unresolved show CALL"])
@unresolved_call_argument
@options.tenant
@options.as_json
def show(call: str, *, tenant: str, as_json: bool) -> None:
    """Show a call whose outcome is unknown: its parameters, its idempotency key, and the state of its recovery."""
    from paddock.cli.client.api_client import open_client, path_segment

    with open_client(tenant) as client:
        values = client.get(f"/calls/unresolved/{path_segment(call)}")
        has_daemon = client.has_daemon
    if as_json:
        print_json(values)
        return
    name = f"{values['plugin']} {values['callable']}"
    print_result(styled(f"{printable(name, 200)}: {values['state'].replace('_', ' ')}", "bold"))
    for label in ("key", "principal", "started_at", "ended_at", "recovery", "resolution", "resolved_by"):
        if values[label] is not None:
            print_result(f"  {label.replace('_', ' '):12} {printable(str(values[label]), 300)}")
    if values["error"]:
        print_result(f"  {'why':12} {printable(str(values['error'].get('message', '')), 400)}")
        for line in remedy_lines_of(values["error"]):
            print_result(f"  {'':12} → {printable(line, 400)}")
    by_itself = values["state"] == "in_doubt" and values["recovery"] != "none"
    if by_itself:
        print_result(f"  {'finding out':12} {_recovery_text(values['search'])}")
    print_call_values(values, print_result)
    if values["state"] != "in_doubt":
        return
    if by_itself:
        print_message(
            "the daemon finds out by itself; wait,"
            if has_daemon
            else "a daemon finds out by itself, and none runs for this home: paddock serve;"
        )
    print_message(f"{'or ' if by_itself else ''}look whether it has happened, then say so:")
    print_message(f"  paddock call unresolved resolve {call} --happened{tenant_option(tenant)}")
    print_message(f"  paddock call unresolved resolve {call} --not-happened{tenant_option(tenant)}")


def _recovery_text(search: Mapping[str, Any] | None) -> str:
    if search is None:
        return "Paddock no longer tries; a daemon tries once more when it starts"
    attempts = "not tried yet"
    if search["tries"]:
        attempts = f"tried {count_text(search['tries'], 'time')}"
        attempts += f", the last time: {search['last_error']}" if search["last_error"] else ""
    when = "somebody is at it now" if search["now"] else f"due at {search['next_at'][:19]} UTC"
    return f"{attempts}; {when}"


app.add_command(resolve.resolve)
