"""`paddock policy file …`: the files of custom rules. A change is checked and tested before it is saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.client.api_client import ApiClient, open_client, path_segment
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import (
    format_table,
    print_json,
    print_message,
    print_problems,
    print_result,
    report_change,
    styled,
)
from paddock.core.error_formats import problem_from_dict
from paddock.core.errors import NotFound, OperatorError
from paddock.core.printable import count_text, printable

if TYPE_CHECKING:
    from paddock.host.policy.rule_change import RuleChangeJson

app = PaddockGroup("file", help="Manage the files of custom policy rules.")

_MAX_SHOWN_ITEMS = 20

file_name_argument = click.argument("name", help="The name of the file, such as night-shift.cedar.")


@app.command("list", examples=["paddock policy file list"])
@options.as_json
def list_(*, as_json: bool) -> None:
    """List the files of custom rules."""
    with open_client() as client:
        files = client.get("/policy/files")
    if as_json:
        print_json(files)
    elif files["files"]:
        cells = [[printable(file["name"]), str(file["text"].count("\n")), file["digest"]] for file in files["files"]]
        for line in format_table(["FILE", "LINES", "DIGEST"], cells):
            print_result(line)
    else:
        print_message("there are no rules of your own; try: paddock policy file set NAME FILE")


@app.command(
    "show",
    examples=[
        "paddock policy file show night-shift.cedar",
        "paddock policy file show night-shift.cedar --version pol_…",
    ],
)
@file_name_argument
@click.option("--version", metavar="VERSION", help="The rules that the file had in this version. [default: its text]")
@options.as_json
def show(name: str, *, version: str | None, as_json: bool) -> None:
    """Show a file of custom rules."""
    query = f"?version={path_segment(version)}" if version else ""
    with open_client() as client:
        file = client.get(f"{_path(name)}{query}")
    if as_json:
        print_json(file)
        return
    for line in file["text"].rstrip("\n").split("\n"):
        print_result(printable(line, 1000))


@app.command(
    "set",
    examples=[
        "paddock policy file set night-shift.cedar ./draft.cedar",
    ],
)
@file_name_argument
@click.argument("file", metavar="FILE", help="A file with the new rules; - for standard input.")
@click.option("--dry-run", is_flag=True, help="Only show what the change does.")
@options.yes
@options.as_json
def set_(name: str, file: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Add or replace a file of custom rules, after checking and testing it.

    Shows which policy tests fail then, which recent calls are decided otherwise, and which tools you lose.
    """
    text = _read_text(file)
    with open_client() as client:
        digest, change = _find_digest(client, name), client.post(f"{_path(name)}/check", {"text": text})
        _report_consequences(change)
        if dry_run:
            _report_dry_run(change, as_json=as_json)
            return
        _confirm(change, "Save it", f"paddock policy file set {name} {file}", yes=yes)
        saved = client.put(_path(name), {"text": text, "digest": digest, "accept": change["version"]})
    report_change(as_json, f"saved {change['file']}; rules {change['version']} are in force", **saved)


@app.command("remove", examples=["paddock policy file remove night-shift.cedar --yes"])
@file_name_argument
@click.option("--dry-run", is_flag=True, help="Only show what the removal does.")
@options.yes
@options.as_json
def remove(name: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove a file of custom rules, after testing what that changes."""
    with open_client() as client:
        digest, change = client.get(_path(name))["digest"], client.post(f"{_path(name)}/check", {"text": None})
        _report_consequences(change)
        if dry_run:
            _report_dry_run(change, as_json=as_json)
            return
        _confirm(change, "Remove it", f"paddock policy file remove {name}", yes=yes, always=True)
        query = f"?digest={path_segment(digest)}&accept={path_segment(change['version'])}"
        removed = client.delete(f"{_path(name)}{query}")
    report_change(as_json, f"removed {change['file']}; rules {change['version']} are in force", **removed)


def _path(name: str) -> str:
    return f"/policy/files/{path_segment(name)}"


def _find_digest(client: ApiClient, name: str) -> str | None:
    try:
        return client.get(_path(name))["digest"]
    except NotFound:
        return None


def _read_text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"cannot read {printable(file, 200)}: {error}", code="policy.unreadable") from error


def _report_consequences(change: RuleChangeJson) -> None:
    """Print what a change does."""
    for label, ids in (("new", change["added"]), ("changed", change["changed"]), ("gone", change["removed"])):
        if ids:
            print_message(f"  {styled(label.ljust(8), 'dim')} {', '.join(map(printable, ids[:_MAX_SHOWN_ITEMS]))}")
    print_problems([problem_from_dict({**one}) for one in change["warnings"]], "!", "yellow")
    for case in change["failed_tests"][:_MAX_SHOWN_ITEMS]:
        print_message(f"  {styled('✗', 'red')} {printable(case['name'], 200)}: {printable(case['why'], 400)}")
    for one in change["changed_decisions"][:_MAX_SHOWN_ITEMS]:
        calls = count_text(one["calls"], "recent call")
        print_message(
            f"  {styled('!', 'yellow')} {printable(one['who'])} {printable(one['name'], 200)}: {one['before']} → "
            f"{one['after']} ({calls}; {', '.join(one['rules']) or 'no rule allows it'})"
        )
    if change["lost"]:
        names = ", ".join(printable(name) for name in change["lost"][:_MAX_SHOWN_ITEMS])
        print_message(f"  {styled('!', 'red')} you could no longer call {names}")
    print_message(
        f"  {count_text(change['tests'], 'policy test')} and {count_text(change['examined'], 'recent call')} were tried"
    )


def _report_dry_run(change: RuleChangeJson, *, as_json: bool) -> None:
    if as_json:
        print_json(change)
    else:
        print_message("nothing was changed")


def _confirm(change: RuleChangeJson, question: str, retype: str, *, yes: bool, always: bool = False) -> None:
    from paddock.cli.output.consent_prompt import confirm

    if always or change["needs_acceptance"]:
        confirm(f"{question}?", yes=yes, retype=retype)
