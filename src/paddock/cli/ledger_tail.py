"""`paddock ledger tail`: the latest entries, narrowed, and new ones as they come."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.outward import EXIT_INTERRUPTED
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.host.command import CommandHost
    from paddock.ledger.entry import Entry
    from paddock.ledger.feed import Wanted

_EVERY = 0.25  # seconds between two looks
_ONLY_IN_SHOW = frozenset(
    """
    name digest effects request_id operator_id payload_hash result_hash policy_version stands_for success
    """.split()  # noqa: SIM905 - a table of words
)


def register(app: typer.Typer) -> None:
    app.command("tail", epilog="Example: paddock ledger tail --plugin notes --follow")(tail)


@reporting
def tail(
    *,
    count: Annotated[int, typer.Option("--lines", "-n", min=0, max=1000, help="How many of the last entries.")] = 50,
    event_type: Annotated[
        str | None, typer.Option("--type", help="Only these, such as plugin.crashed or plugin.hook.*")
    ] = None,
    plugin: Annotated[str | None, typer.Option(help="Only those about this plugin.")] = None,
    call: Annotated[str | None, typer.Option(help="Only those of this call.")] = None,
    request: Annotated[str | None, typer.Option(help="Only those of this request.")] = None,
    principal: Annotated[str | None, typer.Option(help="Only those of what this one did.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this time on, such as 2030-01-31T08:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")] = None,
    before: Annotated[int | None, typer.Option(metavar="SEQ", help="Before this number: the page before.")] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Whose chain.")] = DEFAULT_TENANT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new entries until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the last entries, oldest first. With --follow and --json, one JSON object a line."""
    from paddock.cli.opening import reading
    from paddock.host.ledger_reading import moment
    from paddock.ledger.feed import Wanted, last_seq, page
    from paddock.ledger.whose import require_known

    wanted = Wanted(event_type, plugin, call, request, principal, moment(since), moment(until))
    with reading() as host:
        database = host.plugins.database
        require_known(database, host.directories.state, tenant)
        end, entries = database.read(
            lambda tx: (last_seq(tx, tenant), page(tx, tenant, wanted, before=before, limit=count))
        )
        entries.reverse()
        if as_json and not follow:
            document({"tenant": tenant, "entries": [entry.to_json() for entry in entries]})
            return
        for entry in entries:
            _show(entry, as_json=as_json)
        if not follow:
            if not entries:
                say("nothing was recorded that fits")
            return
        try:
            _follow(host, tenant, wanted, end, as_json=as_json)
        except KeyboardInterrupt:  # how it is meant to end, and no line of its own
            raise typer.Exit(EXIT_INTERRUPTED) from None


def _follow(host: CommandHost, tenant: str, wanted: Wanted, seq: int, *, as_json: bool) -> None:
    import time

    from paddock.ledger.feed import MOST, last_seq, page

    sys.stdout.flush()
    while True:
        end, entries = host.plugins.database.read(
            lambda tx, seq=seq: (
                last_seq(tx, tenant),
                page(tx, tenant, wanted, after=seq, newest_first=False, limit=MOST),
            )
        )
        for entry in entries:
            _show(entry, as_json=as_json)
        if entries:
            sys.stdout.flush()
        if len(entries) == MOST:
            seq = entries[-1].seq
            continue
        seq = end
        time.sleep(_EVERY)


def _show(entry: Entry, *, as_json: bool) -> None:
    if as_json:
        result(json.dumps(entry.to_json()))
        return
    at = entry.at[:19].replace("T", " ")
    front = f"{styled(at, 'dim', stream=sys.stdout)}  {entry.seq}  {styled(entry.type, 'cyan', stream=sys.stdout)}"
    result(f"{front}  {printable(_told(entry), 300)}".rstrip())


def _told(entry: Entry) -> str:
    """What people look for, in one line: about what, what became of it, who, and the id to look further with."""
    said = {**entry.facts, **entry.personal}
    method, who = said.pop("method", None), said.pop("principal", None)
    about = entry.plugin or "-"
    if method:
        about = method if method.startswith(f"{about}.") else f"{about}.{method}"
    first = [about, *(str(one) for one in (said.pop("status", None), who, entry.call) if one)]
    if entry.erased:
        first.append("(erased)")
    rest = (
        f"{name}={_value(value)}"
        for name, value in said.items()
        if name not in _ONLY_IN_SHOW and value not in (None, [], {}, who)
    )
    return "  ".join((*first, " ".join(rest)))


def show_whole(entry: Entry) -> None:
    """One entry on several lines."""
    from paddock.core.events_calls import flag

    result(styled(f"{entry.type}  {entry.id}", "bold", stream=sys.stdout))
    lines: list[tuple[str, Any]] = [("number", f"{entry.seq} of {entry.tenant}"), ("at", entry.at)]
    lines += [(name, value) for name in ("plugin", "call", "request") if (value := getattr(entry, name))]
    lines += [*entry.facts.items(), *entry.personal.items()]
    if flagged := flag(entry.facts.get("undisclosed")):
        lines.append(("flagged", flagged))
    if entry.erased:
        lines.append(("erased", "what it said of a person"))
    lines.append(("hash", entry.hash))
    for name, value in lines:
        result(f"  {printable(name).ljust(16)} {printable(_value(value), 2_000)}")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
