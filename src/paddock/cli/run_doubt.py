"""`paddock run doubt …`: effects of which nobody knows whether they have happened, and saying so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, read
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.gate.effects.records import Effect
    from paddock.store.database import Transaction

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="See calls that may have happened, and say whether they have."
)

Call = Annotated[str, typer.Argument(metavar="CALL", help="The call's id, as `paddock run doubt list` shows it.")]


@app.command("list", epilog="Example: paddock run doubt list --json")
@reporting
def list_(
    *,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000, help="How many of the oldest ones.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CALL", help="Only those after this one.")] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the calls of which nobody knows whether they have happened, the oldest first."""
    from paddock.gate.effects.machine import State
    from paddock.gate.effects.records import in_state
    from paddock.gate.effects.resolving import require_effect, shown
    from paddock.principals.tenants import require_tenant

    def unit(tx: Transaction) -> list[Effect]:
        of = require_tenant(tx, tenant).name
        if after is not None:
            require_effect(tx, of, after)
        return in_state(tx, State.IN_DOUBT, tenant=of, after=after, limit=count)

    _mind_the_killed()
    doubts = [shown(effect) for effect in read(unit)]
    more = doubts[-1]["call_id"] if len(doubts) == count else None
    if as_json:
        document({"tenant": tenant, "doubts": doubts, "next": more})
        return
    if not doubts:
        say("nothing is in doubt")
        return
    rows = [
        [one["call_id"], f"{one['plugin']} {one['callable']}", (one["started_at"] or "")[:19], one["principal"] or ""]
        for one in doubts
    ]
    for line in table(["CALL", "WHAT", "STARTED", "BY"], [[printable(cell, 100) for cell in row] for row in rows]):
        result(line)
    if more:
        say(f"there may be more: --after {more}")
    say(f"look at one: paddock run doubt show {doubts[0]['call_id']}{for_tenant(tenant)}")


@app.command("show", epilog="Example: paddock run doubt show CALL")
@reporting
def show(call: Call, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Show what is known of the effect of a call, with what it was made with."""
    from paddock.gate.effects.resolving import require_effect, shown

    _mind_the_killed()
    effect = shown(read(lambda tx: require_effect(tx, Tenant(tenant), call)))
    if as_json:
        document(effect)
        return
    name = f"{effect['plugin']} {effect['callable']}"
    result(styled(f"{printable(name, 200)}: {effect['state'].replace('_', ' ')}", "bold"))
    for label in ("key", "principal", "started_at", "ended_at", "recovery", "resolution", "resolved_by"):
        if effect[label] is not None:
            result(f"  {label.replace('_', ' '):12} {printable(str(effect[label]), 300)}")
    if effect["error"]:
        result(f"  {'why':12} {printable(str(effect['error'].get('message', '')), 400)}")
    for label in ("params", "result"):
        if effect[label] is not None:
            result(f"  {label}")
            for line in json.dumps(effect[label], indent=2, ensure_ascii=False).splitlines():
                result(f"    {printable(line, 400)}")
    if effect["state"] == "in_doubt":
        say("look whether it has happened, then say so:")
        say(f"  paddock run doubt resolve {call} --happened{for_tenant(tenant)}")
        say(f"  paddock run doubt resolve {call} --not-happened{for_tenant(tenant)}")


@app.command(
    "resolve",
    epilog="Examples: paddock run doubt resolve CALL --happened   ·   paddock run doubt resolve CALL --not-happened",
)
@reporting
def resolve(
    call: Call,
    *,
    happened: Annotated[
        bool | None, typer.Option("--happened/--not-happened", help="Whether its effect has happened.")
    ] = None,
    answer: Annotated[
        str, typer.Option("--result", metavar="JSON", help="What came of it, for whoever asks again with its key.")
    ] = "null",
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Say what became of a call: it is not made again where it has happened, and may be where it has not."""
    from paddock.cli.opening import at_this_machine, reading
    from paddock.gate.effects.resolving import resolve as resolved
    from paddock.gate.effects.resolving import shown
    from paddock.ledger.append import LedgerTable

    if happened is None:
        raise typer.BadParameter("say which of the two it is", param_hint="--happened/--not-happened")
    found = _json(answer)
    _mind_the_killed()

    with reading() as host:
        store, of, by = host.plugins, Tenant(tenant), at_this_machine()

        def unit(tx: Transaction) -> Effect:
            told = LedgerTable(tx, store.clock, store.random, of, call, by)
            return resolved(tx, told, of, call, happened=happened, result=found, by=by, now=store.now())

        effect = shown(store.database.write(unit))
    if as_json:
        document(effect)
    name = printable(f"{effect['plugin']} {effect['callable']}", 200)
    say(f"{styled('✓', 'green')} {name} has {'' if happened else 'not '}happened")


def _mind_the_killed() -> None:
    """Have in doubt what killed commands of this home had begun: a host sees to that when it opens."""
    from paddock.cli.opening import reading
    from paddock.queue.presence import Presence

    with reading() as host:
        if not Presence(host.directories.state).all_gone():
            return
    from paddock.cli.event_loop import run
    from paddock.cli.one_answer import with_host

    run(with_host(_nothing))


async def _nothing(*_: object) -> None:
    pass


def _json(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        raise typer.BadParameter("is not JSON", param_hint="--result") from None
