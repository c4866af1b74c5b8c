"""`paddock group …`: groups of people, for use in rules."""

from __future__ import annotations

from typing import Any

import click

from paddock.cli import options
from paddock.cli.client.api_client import named_path
from paddock.cli.client.identity_client import open_identity_client, person_path, report_retained_log
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_facts, print_json, print_message, print_result, report_change
from paddock.core.printable import count_text

app = PaddockGroup("group", help="Manage groups of people. Policy rules refer to them.")

group_name_argument = click.argument("name", help="The name of the group, such as night-shift.")


@app.command("add", examples=["paddock group add night-shift --title 'Who is awake'"])
@group_name_argument
@click.option("--title", default="", help="The display name. [default: the name]")
@options.tenant
@options.as_json
def add(name: str, *, title: str, tenant: str, as_json: bool) -> None:
    """Add a group. Membership grants nothing by itself; policy rules may refer to it."""
    with open_identity_client(tenant) as client:
        group = client.post("/groups", {"name": name, "title": title})
    report_change(as_json, f"made the group {name}; add to it: paddock group member add {name} NAME", **group)


@app.command("list", examples=["paddock group list --json"])
@options.tenant
@options.as_json
def list_(*, tenant: str, as_json: bool) -> None:
    """List groups with their members."""
    with open_identity_client(tenant) as client:
        groups = client.get("/groups")
    if as_json:
        print_json(groups)
    elif groups["groups"]:
        cells = [[row["name"], row["title"], ", ".join(row["members"])] for row in groups["groups"]]
        for line in format_table(["GROUP", "TITLE", "MEMBERS"], cells):
            print_result(line)
    else:
        print_message(f"there are no groups; try: paddock group add NAME{tenant_option(tenant)}")


@app.command("show", examples=["paddock group show night-shift"])
@group_name_argument
@options.tenant
@options.as_json
def show(name: str, *, tenant: str, as_json: bool) -> None:
    """Show a group and its members."""
    with open_identity_client(tenant) as client:
        group = client.get(_group_path(name, tenant))
    if as_json:
        print_json(group)
    else:
        print_facts({"group": group["name"], "title": group["title"], "members": ", ".join(group["members"])})


member = PaddockGroup("member", help="Add people to a group and remove them from it.")
app.add_command(member)

member_argument = click.argument("person", help="The name of the person, such as ann.")


@member.command("add", examples=["paddock group member add night-shift ann"])
@group_name_argument
@member_argument
@options.tenant
@options.as_json
def add_member(name: str, person: str, *, tenant: str, as_json: bool) -> None:
    """Add a person to a group."""
    _change_member(name, person, remove=False, tenant=tenant, as_json=as_json)


@member.command("remove", examples=["paddock group member remove night-shift ann"])
@group_name_argument
@member_argument
@options.tenant
@options.as_json
def remove_member(name: str, person: str, *, tenant: str, as_json: bool) -> None:
    """Remove a person from a group."""
    _change_member(name, person, remove=True, tenant=tenant, as_json=as_json)


@app.command("remove", examples=["paddock group remove night-shift --yes"])
@group_name_argument
@options.tenant
@options.yes
@options.as_json
def remove(name: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Remove a group. Its members are kept; approval requests that only it could answer become void."""
    from paddock.cli.output.consent_prompt import confirm

    path = _group_path(name, tenant)
    with open_identity_client(tenant) as client:
        count = len(client.get(path)["members"])
        members = count_text(count, "member")
        retype = f"paddock group remove {name}{tenant_option(tenant)}"
        confirm(f"Remove the group {name} of {members}?", yes=yes, retype=retype)
        removal = client.delete(path)
    report_retained_log(removal)
    report_change(as_json, f"removed the group {name}", name=name, tenant=tenant, removed=True)


def _change_member(name: str, person: str, *, remove: bool, tenant: str, as_json: bool) -> None:
    path = _group_path(name, tenant) + "/members" + person_path(person, tenant).removeprefix("/people")
    with open_identity_client(tenant) as client:
        group: dict[str, Any] = client.delete(path) if remove else client.put(path, None)
    report_change(as_json, f"members of {name}: {', '.join(group['members']) or 'none'}", **group)


def _group_path(name: str, tenant: str) -> str:
    from paddock.principals.groups import unknown_group_error

    return named_path("/groups", name, lambda: unknown_group_error(tenant, name))
