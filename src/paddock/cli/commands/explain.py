"""`paddock explain ID`: explain any decision. Reads the ledger itself, so no daemon is needed."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.client.store_access import local_principal
from paddock.cli.command import command
from paddock.cli.output.action_text import command_line
from paddock.cli.output.report import print_json, print_result, styled, wrap_text


@command("explain", examples=["paddock explain ID", "paddock explain ID --as user:ann"])
@click.argument("name", metavar="ID", help="The id of a call, a request, an approval, or a ledger entry.")
@click.option("--as", "who", metavar="PRINCIPAL", help="Explain it as this principal may see it, such as user:ann.")
@options.tenant
@options.as_json
def explain(name: str, *, who: str | None, tenant: str, as_json: bool) -> None:
    """Explain a decision: the caller, the action, the rule, what would change it, and the outcome."""
    import sys
    from datetime import UTC, datetime

    from paddock.cli.client.local_store import open_for_read
    from paddock.host.explain.explain_service import Explainer, explanations_to_json
    from paddock.policy.load import load_policy
    from paddock.principals.principal_name import resolve_principal

    now = datetime.now(UTC)
    with open_for_read(tenant) as host:
        policy = load_policy(host.directories, host.loaded.settings.policy)
        principal = host.plugins.database.read(lambda tx: resolve_principal(tx, who or local_principal(), tenant, now))
        explanations = Explainer(host.plugins.for_tenant(principal.tenant), policy, now).explain(name, principal)
    if as_json:
        print_json(explanations_to_json(name, explanations))
        return
    for index, explanation in enumerate(explanations):
        first, *rest = explanation.lines(command_line)
        print_result(("\n" if index else "") + styled(first, "bold", stream=sys.stdout))
        for line in rest:
            print_result(wrap_text(line, 6))
