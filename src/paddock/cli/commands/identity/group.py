"""`paddock group …`: groups of people, for use in rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import (
    DEFAULT_TENANT_NAME,
    RemoveOption,
    TenantOption,
    change_store,
    read_store,
    remove_with_approvals,
    report_change,
)
from paddock.cli.output.report import (
    JsonOption,
    YesOption,
    format_table,
    handle_errors,
    print_json,
    print_message,
    print_result,
)
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.principals.groups import PersonGroup

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Put people into groups, for rules to speak of.")

GroupNameArgument = Annotated[str, typer.Argument(help="The group's name, as in night-shift.")]


@app.command("add", epilog="Example: paddock group add night-shift --title 'Who is awake'")
@handle_errors
def add(
    name: GroupNameArgument,
    *,
    title: Annotated[str, typer.Option(help="What people read; the name when left out.")] = "",
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Make a group. Being in it gives nothing by itself; rules may say that it does."""
    from paddock.principals.groups import add_group

    group = change_store(tenant, lambda change: add_group(change, name, title))
    report_change(
        as_json, f"made the group {group.name}; add to it: paddock group member {group.name} NAME", **_group_json(group)
    )


@app.command("list", epilog="Example: paddock group list --json")
@handle_errors
def list_(*, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False) -> None:
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


@app.command(
    "member",
    epilog="Examples: paddock group member night-shift ann   ·   paddock group member night-shift ann --remove",
)
@handle_errors
def member(
    name: GroupNameArgument,
    person: Annotated[str, typer.Argument(help="Who comes or goes.")],
    *,
    remove: RemoveOption = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Take a person into a group, or out of it."""
    from paddock.principals.groups import change_member

    group = change_store(tenant, lambda change: change_member(change, name, person, remove=remove))
    report_change(as_json, f"in {group.name}: {', '.join(group.members) or 'nobody'}", **_group_json(group))


@app.command("remove", epilog="Example: paddock group remove night-shift --yes")
@handle_errors
def remove(
    name: GroupNameArgument,
    *,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a group. Its members stay people; requests that it was to answer are void."""
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
