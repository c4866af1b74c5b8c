"""`paddock inbox …`: everything that needs a person, with the command that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import command_line, remedy_lines_of
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled
from paddock.core.action import Action
from paddock.core.printable import count_text, printable

_KINDS: Final = ("approval", "consent", "unknown_outcome", "definition", "repair")
_RISK_COLORS: Final = {"danger": "red", "warning": "yellow", "notice": "cyan"}
_COLUMNS: Final = ("ID", "RISK", "KIND", "WHAT", "ASKED BY", "SINCE", "UNTIL")
_HIDDEN_WHEN_NARROW: Final = ("SINCE", "ASKED BY", "KIND")


@click.group("inbox", cls=PaddockGroup, invoke_without_command=True)
@click.pass_context
def app(context: click.Context) -> None:
    """List everything that needs you, and how to answer it. Without a command, this is `paddock inbox list`."""
    if context.invoked_subcommand is None:
        with list_.make_context("list", [], parent=context) as listing:
            list_.invoke(listing)


@app.command("list", examples=["paddock inbox list", "paddock inbox list --kind approval --json"])
@click.option("--kind", type=click.Choice(_KINDS), help="Only items of this kind.")
@click.option("--with-others", is_flag=True, help="List what you asked for and others answer, instead.")
@click.option("--lines", "-n", "count", type=click.IntRange(min=1, max=200), default=50, help="The number of items.")
@click.option("--after", metavar="CURSOR", help="Only items after this position.")
@options.tenant
@options.as_json
def list_(*, kind: str | None, with_others: bool, count: int, after: str | None, tenant: str, as_json: bool) -> None:
    """List what needs you: the most dangerous first, then the nearest deadline."""
    from paddock.cli.client.api_client import open_client, path_segment

    query = f"limit={count}{f'&kind={kind}' if kind else ''}{'&with_others=1' if with_others else ''}"
    query += f"&after={path_segment(after)}" if after is not None else ""
    with open_client(tenant) as client:
        page = client.get(f"/inbox?{query}")
    if as_json:
        print_json(page)
        return
    for problem in page["unavailable"]:
        message = printable(problem["message"], 400)
        print_message(f"{styled('!', 'yellow')} {_kind_text(problem['kind'])} cannot be listed: {message}")
    if not page["items"]:
        print_message("nothing waits for others" if with_others else "nothing needs you")
    else:
        rows = [[printable(cell, 100) for cell in _table_row(item)] for item in page["items"]]
        for line in format_table(_COLUMNS, rows, hideable=_HIDDEN_WHEN_NARROW):
            print_result(line)
    if page["next"]:
        print_message(f"there are more: --after {page['next']}")
    if page["items"]:
        print_message("how to answer one: paddock inbox show ID")
    if not with_others and page["counts"]["with_others"]:
        print_message(f"{count_text(page['counts']['with_others'], 'request')} of yours with others: --with-others")


@app.command("show", examples=["paddock inbox show ID"])
@click.argument("item_id", metavar="ID", help="The id of the item, as shown by `paddock inbox list`.")
@options.tenant
@options.as_json
def show(item_id: str, *, tenant: str, as_json: bool) -> None:
    """Show an item: what it is about, who may answer it, and the commands that do."""
    from paddock.cli.client.api_client import open_client, path_segment

    with open_client(tenant) as client:
        item = client.get(f"/inbox/{path_segment(item_id)}")
    if as_json:
        print_json(item)
        return
    print_message(f"{styled(item['risk'], _RISK_COLORS[item['risk']])}  {printable(item['title'], 400)}")
    for line in _item_lines(item):
        print_message(f"  {printable(line, 1_000)}")
    if item["inputs"] is not None:
        print_json(item["inputs"])
    for line in remedy_lines_of(item):
        print_message(f"  → {line}")
    action = Action.from_json(item["action"])
    if action is not None and action.kind == "approval.approve":
        print_message(f"  → {command_line(Action('approval.deny', action.arguments))}")


def _table_row(item: Mapping[str, Any]) -> list[str]:
    return [
        item["id"],
        item["risk"],
        _kind_text(item["kind"]),
        item["title"],
        item["requester"] or "-",
        (item["created_at"] or "-")[:19],
        (item["expires_at"] or "-")[:19],
    ]


def _item_lines(item: Mapping[str, Any]) -> list[str]:
    for_person = item["for_person"] if item["for_person"] != item["requester"] else ""
    lines = [
        f"{_kind_text(item['kind'])}: {item['detail']}",
        f"asked by {item['requester']}{f', for {for_person}' if for_person else ''}" if item["requester"] else "",
        f"effects: {', '.join(item['effects'])}" if item["effects"] else "",
        f"who may answer: {' or '.join(item['answerable_by'])}" if item["answerable_by"] else "",
        f"it takes {item['needed']} more answers" if item["needed"] > 1 else "",
        f"since {item['created_at'][:19]}" if item["created_at"] else "",
        f"until {item['expires_at'][:19]}" if item["expires_at"] else "",
    ]
    return [line for line in lines if line]


def _kind_text(kind: str) -> str:
    return kind.replace("_", " ")
