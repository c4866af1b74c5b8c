"""`paddock run doubt resolve`: a person says what became of a call, once they have seen what it is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, say, styled
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import Invalid, Problem
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.gate.effects.records import Effect
    from paddock.store.database import Transaction

Call = Annotated[str, typer.Argument(metavar="CALL", help="The call's id, as `paddock run doubt list` shows it.")]

_WHICH = "--happened / --not-happened"


@reporting
def resolve(
    call: Call,
    *,
    happened: Annotated[
        bool, typer.Option("--happened", help="Its effect has happened: nobody makes it again.")
    ] = False,
    not_happened: Annotated[
        bool, typer.Option("--not-happened", help="It has not: whoever comes with its key makes it again.")
    ] = False,
    answer: Annotated[
        str | None,
        typer.Option(
            "--result",
            metavar="JSON",
            help="What came of it, for whoever asks again with its key; @FILE reads a file. Without it they get null.",
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="WORDS", help="How you know, for the ledger.")] = "",
    yes: Yes = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Say what became of a call: it is not made again where it has happened, and may be where it has not."""
    from paddock.cli.opening import at_this_machine, reading
    from paddock.gate.effects.resolving import require_doubt, shown
    from paddock.gate.effects.resolving import resolve as resolved
    from paddock.host.doubts import require_promised
    from paddock.ledger.append import LedgerTable

    if happened == not_happened:
        raise typer.BadParameter("say which of the two it is", param_hint=_WHICH)
    if not_happened and answer is not None:
        raise typer.BadParameter("is for what has happened", param_hint="--result")
    found = None if answer is None else _given(answer)
    mind_the_killed()

    with reading(tenant) as host:
        store, of, by = host.plugins, Tenant(tenant), at_this_machine()
        doubt = store.database.read(lambda tx: require_doubt(tx, of, call))
        if answer is not None:
            require_promised(store, doubt, found)
        if not_happened:
            _ask(shown(doubt), call, tenant, yes=yes)

        def unit(tx: Transaction) -> Effect:
            told = LedgerTable(tx, store.clock, store.random, of, call, by)
            return resolved(tx, told, of, call, happened=happened, result=found, by=by, now=store.now(), comment=reason)

        effect = shown(store.database.write(unit))
    if as_json:
        document(effect)
    name = printable(f"{effect['plugin']} {effect['callable']}", 200)
    say(f"{styled('✓', 'green')} {name} has {'' if happened else 'not '}happened")
    if happened and answer is None:
        say("  whoever asks again with its key gets null, since no --result says what came of it")


def _ask(doubt: Mapping[str, Any], call: str, tenant: str, *, yes: bool) -> None:
    """Have a person see what would happen a second time if they are mistaken."""
    from paddock.cli.consent import confirm

    if not yes:
        say(styled(printable(f"{doubt['plugin']} {doubt['callable']}", 200), "bold"))
        say(f"  {'key':12} {printable(doubt['key'], 300)}")
        show_values(doubt, say)
    question = "Has it not happened? Whoever comes with its key makes it again, and it happens twice if it has."
    retype = f"paddock run doubt resolve {call} --not-happened{for_tenant(tenant)}"
    confirm(question, yes=yes, retype=retype, details={"call_id": call, "key": doubt["key"], "params": doubt["params"]})


def show_values(effect: Mapping[str, Any], line: Callable[[str], None]) -> None:
    """What a call was made with, and what came of it."""
    for label in ("params", "result"):
        if effect[label] is not None:
            line(f"  {label}")
            for one in json.dumps(effect[label], indent=2, ensure_ascii=False).splitlines():
                line(f"    {printable(one, 400)}")


def _given(written: str) -> Any:
    """What stands behind `--result`.

    Raises:
        Invalid: it is not JSON.
        NotFound: there is no such file.
    """
    from paddock.cli.answering import given_json

    where, value = given_json(written, "--result")
    if value is None and written.strip() != "null":
        problem = Problem(where, "is not JSON", """write for instance --result '{"id": 3}'""", "not_json")
        raise Invalid("the result is not valid", [problem], code="invalid_params")
    return value


def mind_the_killed() -> None:
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
