"""`paddock ledger tail`: the latest entries, filtered, and new ones as they arrive."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_result, styled
from paddock.core.error_formats import EXIT_INTERRUPTED
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.ledger.entry import LedgerEntry

_HIDDEN_IN_TAIL = frozenset(
    """
    name digest effects request_id operator_id payload_hash result_hash policy_version stands_for success
    """.split()  # noqa: SIM905 - a table of words
)


@command("tail", examples=["paddock ledger tail --plugin notes --follow"])
@click.option("--lines", "-n", "count", type=click.IntRange(min=0, max=1000), default=50, help="The number of entries.")
@click.option("--type", "event_type", help="Only events of this type, such as plugin.crashed or plugin.hook.*")
@click.option("--plugin", help="Only entries about this plugin.")
@click.option("--call", help="Only entries of this call.")
@click.option("--request", help="Only entries of this request.")
@click.option("--principal", help="Only entries about actions of this principal.")
@click.option("--since", metavar="TIME", help="Only entries from this time on, such as 2030-01-31T08:00.")
@click.option("--until", metavar="TIME", help="Only entries before this time.")
@click.option("--before", type=click.IntRange(min=0), metavar="SEQ", help="Only entries before this sequence number.")
@click.option("--tenant", default=DEFAULT_TENANT, metavar="NAME", help="The tenant of the chain.")
@click.option("--follow", "-f", is_flag=True, help="Print new entries until Ctrl-C.")
@options.as_json
def tail(
    *,
    count: int,
    event_type: str | None,
    plugin: str | None,
    call: str | None,
    request: str | None,
    principal: str | None,
    since: str | None,
    until: str | None,
    before: int | None,
    tenant: str,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the last ledger entries, oldest first. With --follow and --json: one JSON object per line."""
    from paddock.cli.client.ledger_client import follow_entries, read_key_names, read_latest
    from paddock.host.ledger.reader import parse_ledger_time
    from paddock.ledger.read.entries import EntryFilter

    entry_filter = EntryFilter(
        event_type, plugin, call, request, principal, parse_ledger_time(since), parse_ledger_time(until)
    )
    entries, end = read_latest(tenant, entry_filter, before=before, count=count)
    if as_json and not follow:
        print_json({"tenant": tenant, "entries": [entry.to_json() for entry in entries]})
        return
    names = {} if as_json else read_key_names(tenant, entries)
    for entry in entries:
        _print_entry(entry, names, as_json=as_json)
    if not follow:
        if not entries:
            print_message("nothing was recorded that fits")
        return
    sys.stdout.flush()
    try:
        for entry in follow_entries(tenant, entry_filter, end):
            if not as_json and entry.personal.get("principal") not in names:
                names = read_key_names(tenant, [entry]) or names
            _print_entry(entry, names, as_json=as_json)
            sys.stdout.flush()
    except KeyboardInterrupt:  # the normal end; no message
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def _print_entry(entry: LedgerEntry, names: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        print_result(json.dumps(entry.to_json()))
        return
    timestamp = entry.at[:19].replace("T", " ")
    prefix = (
        f"{styled(timestamp, 'dim', stream=sys.stdout)}  {entry.seq}  {styled(entry.type, 'cyan', stream=sys.stdout)}"
    )
    print_result(f"{prefix}  {printable(_summary_line(entry, names), 300)}".rstrip())


def _summary_line(entry: LedgerEntry, names: Mapping[str, str]) -> str:
    """Summarize an entry in one line: subject, status, principal, and the call's id."""
    from paddock.ledger.text.sentence_template import labelled

    facts = {**entry.facts, **entry.personal}
    method, principal = facts.pop("method", None), facts.pop("principal", None)
    subject = entry.plugin or "-"
    if method:
        subject = method if method.startswith(f"{subject}.") else f"{subject}.{method}"
    caller = labelled(principal, names) if principal else None
    parts = [subject, *(str(value) for value in (facts.pop("status", None), caller, entry.call) if value)]
    if entry.erased:
        parts.append("(erased)")
    rest = (
        f"{name}={_format_value(value)}"
        for name, value in facts.items()
        if name not in _HIDDEN_IN_TAIL and value not in (None, [], {}, principal)
    )
    return "  ".join((*parts, " ".join(rest)))


def print_full_entry(entry: LedgerEntry, names: Mapping[str, str]) -> None:
    """Print one entry on several lines; `names` are those of API keys."""
    from paddock.core.events.calls import undisclosed_text
    from paddock.ledger.text.sentence_template import labelled

    print_result(styled(f"{entry.type}  {entry.id}", "bold", stream=sys.stdout))
    lines: list[tuple[str, Any]] = [("number", f"{entry.seq} of {entry.tenant}"), ("at", entry.at)]
    lines += [(name, value) for name in ("plugin", "call", "request") if (value := getattr(entry, name))]
    lines += entry.facts.items()
    lines += [
        (name, labelled(value, names) if isinstance(value, str) else value) for name, value in entry.personal.items()
    ]
    if warning := undisclosed_text(entry.facts.get("undisclosed")):
        lines.append(("flagged", warning))
    if entry.erased:
        lines.append(("erased", "what it said of a person"))
    lines.append(("hash", entry.hash))
    for name, value in lines:
        print_result(f"  {printable(name).ljust(16)} {printable(_format_value(value), 2_000)}")


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
