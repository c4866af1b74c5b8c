"""`paddock explain ID`: any decision in plain words. Reads the record itself, so no daemon has to run."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli.output import AsJson, document, reporting, result, styled, wrapped
from paddock.cli.principals import DEFAULT, OfTenant, at_this_machine

app = typer.Typer(add_completion=False)

_EXAMPLES = "Examples: paddock explain ID   ·   paddock explain ID --as user:ann"


@app.command("explain", epilog=_EXAMPLES)
@reporting
def explain(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="Of a call, a request, an approval, or an entry of the ledger.")
    ],
    *,
    who: Annotated[
        str | None, typer.Option("--as", metavar="PRINCIPAL", help="As it is told to somebody else, such as user:ann.")
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Explain a decision: who, what, which rule, what would have changed it, and what happened."""
    import sys
    from datetime import UTC, datetime

    from paddock.cli.opening import reading
    from paddock.host.explaining import Explainer, to_value
    from paddock.policy.loading import load_policy
    from paddock.principals.subjects import principal_of

    now = datetime.now(UTC)
    with reading(tenant) as host:
        policy = load_policy(host.directories, host.loaded.settings.policy)
        by = host.plugins.database.read(lambda tx: principal_of(tx, who or at_this_machine(), tenant, now))
        found = Explainer(host.plugins.of(by.tenant), policy, now).explain(name, by)
    if as_json:
        document(to_value(name, found))
        return
    for place, one in enumerate(found):
        first, *rest = one.lines()
        result(("\n" if place else "") + styled(first, "bold", stream=sys.stdout))
        for line in rest:
            result(wrapped(line, 6))
