"""`paddock group …`: groups of people, for use in rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.store_access import (
    change_store,
    read_store,
    remove_with_approvals,
    report_change,
)
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_facts, print_json, print_message, print_result

if TYPE_CHECKING:
    from paddock.principals.groups import PersonGroup

app = PaddockGroup("group", help="Manage groups of people. Policy rules refer to them.")

group_name_argument = click.argument("name", help="The name of the group, such as night-shift.")


@app.command("add", examples=["paddock group add night-shift --title 'Who is awake'"])
@group_name_argument
@click.option("--title", default="", help="The display name. [default: the name]")
@options.tenant
@options.as_json
def add(name: str, *, title: str, tenant: str, as_json: bool) -> None:
    """Add a group. Membership grants nothing by itself; policy rules may refer to it."""
    from paddock.principals.groups import add_group

    group = change_store(tenant, lambda change: add_group(change, name, title))
    report_change(
        as_json,
        f"made the group {group.name}; add to it: paddock group member add {group.name} NAME",
        **_group_json(group),
    )


@app.command("list", examples=["paddock group list --json"])
@options.tenant
@options.as_json
def list_(*, tenant: str, as_json: bool) -> None:
    """List groups with their members."""
    from paddock.principals.groups import list_groups
    from paddock.principals.tenants import require_tenant

    rows = read_store(lambda tx: require_tenant(tx, tenant) and list_groups(tx, tenant))
    if as_json:
        print_json({"tenant": tenant, "groups": [_group_json(row) for row in rows]})
    elif rows:
        for line in format_table(
            ["GROUP", "TITLE", "MEMBERS"], [[row.name, row.title, ", ".join(row.members)] for row in rows]
        ):
            print_result(line)
    else:
        print_message(f"there are no groups; try: paddock group add NAME{tenant_option(tenant)}")


@app.command("show", examples=["paddock group show night-shift"])
@group_name_argument
@options.tenant
@options.as_json
def show(name: str, *, tenant: str, as_json: bool) -> None:
    """Show a group and its members."""
    from paddock.principals.groups import require_group

    row = read_store(lambda tx: require_group(tx, tenant, name))
    if as_json:
        print_json(_group_json(row))
    else:
        print_facts({"group": row.name, "title": row.title, "members": ", ".join(row.members)})


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
    from paddock.approvals.removal import remove_group
    from paddock.cli.output.consent_prompt import confirm
    from paddock.principals.groups import require_group

    group_before = read_store(lambda tx: require_group(tx, tenant, name))
    members = "1 member" if len(group_before.members) == 1 else f"{len(group_before.members)} members"
    retype = f"paddock group remove {group_before.name}{tenant_option(tenant)}"
    confirm(f"Remove the group {group_before.name} of {members}?", yes=yes, retype=retype)
    group = remove_with_approvals(tenant, lambda change, unit: remove_group(change, unit, name))
    report_change(as_json, f"removed the group {group.name}", name=group.name, tenant=group.tenant, removed=True)


def _group_json(group: PersonGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "tenant": group.tenant,
        "title": group.title,
        "members": list(group.members),
        "created_at": group.created_at,
    }


def _change_member(name: str, person: str, *, remove: bool, tenant: str, as_json: bool) -> None:
    from paddock.principals.groups import change_member

    group = change_store(tenant, lambda change: change_member(change, name, person, remove=remove))
    report_change(as_json, f"members of {group.name}: {', '.join(group.members) or 'none'}", **_group_json(group))
