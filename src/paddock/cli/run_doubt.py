"""`paddock run doubt …`: effects of which nobody knows whether they have happened, and saying so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli import run_doubt_resolve
from paddock.cli.output import AsJson, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, read
from paddock.cli.run_doubt_resolve import Call, mind_the_killed, show_values
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.gate.effects.records import Effect, Search
    from paddock.store.database import Transaction

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="See calls that may have happened, and say whether they have."
)

_COLUMNS = ("CALL", "WHAT", "KEY", "STARTED", "BY", "RECOVERY", "WHY")
_WITHOUT = ("BY", "STARTED", "RECOVERY", "KEY")  # on a narrow terminal


@app.command("list", epilog="Examples: paddock run doubt list --json   ·   paddock run doubt list --resolved")
@reporting
def list_(
    *,
    resolved: Annotated[
        bool,
        typer.Option(
            "--resolved", help="Instead, those of which is known by now what became of them, the latest first."
        ),
    ] = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000, help="How many at most.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CALL", help="Only those after this one.")] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the calls of which nobody knows whether they have happened, the oldest first."""
    from paddock.gate.effects import records
    from paddock.gate.effects.machine import State
    from paddock.gate.effects.resolving import require_effect, shown
    from paddock.principals.tenants import require_tenant

    def unit(tx: Transaction) -> list[Effect]:
        of = require_tenant(tx, tenant).name
        if after is not None:
            require_effect(tx, of, after)
        if resolved:
            return records.resolved(tx, of, after=after, limit=count)
        return records.in_state(tx, State.IN_DOUBT, tenant=of, after=after, limit=count)

    mind_the_killed()
    doubts = [shown(effect) for effect in read(unit)]
    more = doubts[-1]["call_id"] if len(doubts) == count else None
    if as_json:
        document({"tenant": tenant, "doubts": doubts, "next": more})
        return
    if not doubts:
        say("nothing was in doubt" if resolved else "nothing is in doubt")
        return
    rows = [[printable(cell, 100) for cell in _row(one)] for one in doubts]
    for line in table(_COLUMNS, rows, spare=_WITHOUT):
        result(line)
    if more:
        say(f"there may be more: --after {more}")
    say(f"look at one: paddock run doubt show {doubts[0]['call_id']}{for_tenant(tenant)}")


def _row(one: Mapping[str, Any]) -> list[str]:
    what, started = f"{one['plugin']} {one['callable']}", (one["started_at"] or "")[:19]
    key = "" if one["key"] == one["call_id"] else one["key"]
    error: Mapping[str, Any] = one["error"] or {}
    why = error.get("message", "") if one["resolution"] is None else _found(one)
    return [one["call_id"], what, key, started, one["principal"] or "", one["recovery"], why]


def _found(one: Mapping[str, Any]) -> str:
    """What became of it, and who says so."""
    happened = "has happened" if one["state"] == "succeeded" else "has not happened"
    return f"{happened}, says {one['resolved_by'] or one['resolution']}"


@app.command("show", epilog="Example: paddock run doubt show CALL")
@reporting
def show(call: Call, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Show what is known of the effect of a call, with what it was made with and how finding out goes."""
    from paddock.gate.effects import records
    from paddock.gate.effects.machine import State
    from paddock.gate.effects.resolving import require_effect, shown

    def unit(tx: Transaction) -> tuple[Effect, Search | None]:
        effect = require_effect(tx, Tenant(tenant), call)
        return effect, records.search(tx, effect) if effect.state is State.IN_DOUBT else None

    mind_the_killed()
    known, search = read(unit)
    effect = shown(known)
    if as_json:
        document(effect | {"search": search and search._asdict()})
        return
    name = f"{effect['plugin']} {effect['callable']}"
    result(styled(f"{printable(name, 200)}: {effect['state'].replace('_', ' ')}", "bold"))
    for label in ("key", "principal", "started_at", "ended_at", "recovery", "resolution", "resolved_by"):
        if effect[label] is not None:
            result(f"  {label.replace('_', ' '):12} {printable(str(effect[label]), 300)}")
    if effect["error"]:
        result(f"  {'why':12} {printable(str(effect['error'].get('message', '')), 400)}")
    by_itself = effect["state"] == "in_doubt" and effect["recovery"] != "none"
    if by_itself:
        result(f"  {'finding out':12} {_search_in_words(search)}")
    show_values(effect, result)
    if effect["state"] != "in_doubt":
        return
    if by_itself:
        say(_who_finds_out())
    say(f"{'or ' if by_itself else ''}look whether it has happened, then say so:")
    say(f"  paddock run doubt resolve {call} --happened{for_tenant(tenant)}")
    say(f"  paddock run doubt resolve {call} --not-happened{for_tenant(tenant)}")


def _search_in_words(search: Search | None) -> str:
    if search is None:
        return "nobody tries any more; a daemon does once more when it starts"
    tried = "not tried yet"
    if search.tries:
        tried = f"tried {search.tries} {'time' if search.tries == 1 else 'times'}"
        tried += f", the last time: {search.last_error}" if search.last_error else ""
    return f"{tried}; {'somebody is at it now' if search.now else f'due at {search.next_at[:19]} UTC'}"


def _who_finds_out() -> str:
    from paddock.cli.daemon import running_daemon

    if running_daemon() is not None:
        return "the daemon finds out by itself; wait,"
    return "a daemon finds out by itself, and none runs for this home: paddock serve;"


app.command(
    "resolve",
    epilog="Examples: paddock run doubt resolve CALL --happened   ·   paddock run doubt resolve CALL --not-happened",
)(run_doubt_resolve.resolve)
