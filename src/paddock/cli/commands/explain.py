"""`paddock explain ID`: explain any decision."""

from __future__ import annotations

from contextlib import ExitStack

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_result, styled, wrap_text


@command("explain", examples=["paddock explain ID", "paddock explain ID --as user:ann"])
@click.argument("name", metavar="ID", help="The id of a call, a request, an approval, or a ledger entry.")
@click.option("--as", "who", metavar="PRINCIPAL", help="Explain it as this principal may see it, such as user:ann.")
@options.tenant
@options.as_json
def explain(name: str, *, who: str | None, tenant: str, as_json: bool) -> None:
    """Explain a decision: the caller, the action, the rule, what would change it, and the outcome."""
    import sys

    from paddock.cli.client.api_client import open_client, path_segment
    from paddock.cli.output.explanation_text import explanation_lines
    from paddock.core.action import Action
    from paddock.core.errors import PaddockError

    if not name or "/" in name or not name.isprintable():
        from paddock.host.explain.explain_service import no_decision_error

        raise no_decision_error(name)  # no id is written like this
    if who is not None:
        from paddock.principals.principal_name import parse_principal_name

        tenant = parse_principal_name(who, tenant).tenant  # also validates it for use in a header
    with ExitStack() as stack:
        try:
            client = stack.enter_context(open_client(tenant))
        except PaddockError as error:
            if error.action is not None:
                raise
            raise error.with_remedy(hint=error.hint, action=Action.of("ledger.show", entry=name)) from error  # no host
        explanation = client.get(f"/calls/{path_segment(name)}/explanation", acting_as=who)
    if as_json:
        print_json(explanation)
        return
    for index, decision in enumerate([*explanation["calls"], *explanation["uses"]]):
        first, *rest = explanation_lines(decision)
        print_result(("\n" if index else "") + styled(first, "bold", stream=sys.stdout))
        for line in rest:
            print_result(wrap_text(line, 6))
