"""`paddock call unresolved resolve`: a person decides the unknown outcome of a call, after seeing what it was about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import print_json, print_message, styled
from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable

unresolved_call_argument = click.argument(
    "call", metavar="CALL", help="The id of the call, as shown by `paddock call unresolved list`."
)

_VERDICT_OPTIONS = "--happened / --not-happened"


@command(
    "resolve",
    examples=["paddock call unresolved resolve CALL --happened", "paddock call unresolved resolve CALL --not-happened"],
)
@unresolved_call_argument
@click.option("--happened", is_flag=True, help="The effect happened; it is not repeated.")
@click.option("--not-happened", is_flag=True, help="The effect did not happen; a call with the same key repeats it.")
@click.option(
    "--result",
    "answer",
    metavar="JSON",
    help="The result for calls with the same key; @FILE reads a file. [default: null]",
)
@click.option("--reason", default="", metavar="WORDS", help="The reason, recorded in the ledger.")
@options.yes
@options.tenant
@options.as_json
def resolve(
    call: str,
    *,
    happened: bool,
    not_happened: bool,
    answer: str | None,
    reason: str,
    yes: bool,
    tenant: str,
    as_json: bool,
) -> None:
    """Record the outcome of a call: an effect that happened is not repeated; one that did not happen may be."""
    from paddock.cli.client.api_client import open_client, path_segment

    if happened == not_happened:
        raise click.BadParameter("say which of the two it is", param_hint=_VERDICT_OPTIONS)
    if not_happened and answer is not None:
        raise click.BadParameter("is for what has happened", param_hint="--result")
    body: dict[str, Any] = {"happened": happened, "reason": reason}
    if answer is not None:
        body["result"] = _read_result_option(answer)
    address = f"/calls/unresolved/{path_segment(call)}"
    with open_client(tenant) as client:
        if not_happened:
            record = client.get(address)
            if record["state"] == "in_doubt":  # otherwise the answer says that it is known
                _confirm_resolution(record, call, tenant, yes=yes)
        resolved_record = client.post(f"{address}/resolve", body)
    del resolved_record["search"]
    if as_json:
        print_json(resolved_record)
    name = printable(f"{resolved_record['plugin']} {resolved_record['callable']}", 200)
    print_message(f"{styled('✓', 'green')} {name} has {'' if happened else 'not '}happened")
    if happened and answer is None:
        print_message("  without --result, a call repeated with its key gets null")


def _confirm_resolution(record: Mapping[str, Any], call: str, tenant: str, *, yes: bool) -> None:
    """Show what would happen twice if the person is mistaken, and ask."""
    from paddock.cli.output.consent_prompt import confirm

    if not yes:
        print_message(styled(printable(f"{record['plugin']} {record['callable']}", 200), "bold"))
        print_message(f"  {'key':12} {printable(record['key'], 300)}")
        print_call_values(record, print_message)
    question = "Has it not happened? Whoever comes with its key makes it again, and it happens twice if it has."
    retype = f"paddock call unresolved resolve {call} --not-happened{tenant_option(tenant)}"
    confirm(
        question, yes=yes, retype=retype, details={"call_id": call, "key": record["key"], "params": record["params"]}
    )


def print_call_values(record: Mapping[str, Any], print_line: Callable[[str], None]) -> None:
    """Print a call's parameters and result."""
    for label in ("params", "result"):
        if record[label] is not None:
            print_line(f"  {label}")
            for text in json.dumps(record[label], indent=2, ensure_ascii=False).splitlines():
                print_line(f"    {printable(text, 400)}")


def _read_result_option(option: str) -> Any:
    """Parse the value of `--result`.

    Raises:
        Invalid: it is not JSON.
        NotFound: there is no such file.
    """
    from paddock.cli.output.question_prompt import read_json_argument

    origin, value = read_json_argument(option, "--result")
    if value is None and option.strip() != "null":
        problem = Problem(origin, "is not JSON", """write for instance --result '{"id": 3}'""", "not_json")
        raise Invalid("the result is not valid", [problem], code="invalid_params")
    return value
