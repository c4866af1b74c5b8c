"""`paddock group …`: groups of people, for rules to speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, table
from paddock.cli.principals import DEFAULT, OfTenant, Removed, change, done, read, removal
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.principals.groups import Group

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Put people into groups, for rules to speak of.")

Name = Annotated[str, typer.Argument(help="The group's name, as in night-shift.")]


@app.command("add", epilog="Example: paddock group add night-shift --title 'Who is awake'")
@reporting
def add(
    name: Name,
    *,
    title: Annotated[str, typer.Option(help="What people read; the name when left out.")] = "",
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a group. Being in it gives nothing by itself; rules may say that it does."""
    from paddock.principals.groups import add_group

    group = change(tenant, lambda made: add_group(made, name, title))
    done(as_json, f"made the group {group.name}; add to it: paddock group member {group.name} NAME", **_value(group))


@app.command("list", epilog="Example: paddock group list --json")
@reporting
def list_(*, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """List groups with their members."""
    from paddock.principals.groups import groups
    from paddock.principals.tenants import require_tenant

    rows = read(lambda tx: require_tenant(tx, tenant) and groups(tx, tenant))
    if as_json:
        document({"tenant": tenant, "groups": [_value(row) for row in rows]})
    elif rows:
        for line in table(
            ["GROUP", "TITLE", "MEMBERS"], [[row.name, row.title, ", ".join(row.members)] for row in rows]
        ):
            result(line)
    else:
        say(f"there are no groups; try: paddock group add NAME{for_tenant(tenant)}")


@app.command(
    "member",
    epilog="Examples: paddock group member night-shift ann   ·   paddock group member night-shift ann --remove",
)
@reporting
def member(
    name: Name,
    person: Annotated[str, typer.Argument(help="Who comes or goes.")],
    *,
    remove: Removed = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Take a person into a group, or out of it."""
    from paddock.principals.groups import change_member

    group = change(tenant, lambda made: change_member(made, name, person, remove=remove))
    done(as_json, f"in {group.name}: {', '.join(group.members) or 'nobody'}", **_value(group))


@app.command("remove", epilog="Example: paddock group remove night-shift --yes")
@reporting
def remove(name: Name, *, tenant: OfTenant = DEFAULT, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a group. Its members stay people; requests that it was to answer are void."""
    from paddock.cli.consent import confirm
    from paddock.policy.leaving import remove_group
    from paddock.principals.groups import require_group

    found = read(lambda tx: require_group(tx, tenant, name))
    counted = "1 member" if len(found.members) == 1 else f"{len(found.members)} members"
    retype = f"paddock group remove {found.name}{for_tenant(tenant)}"
    confirm(f"Remove the group {found.name} of {counted}?", yes=yes, retype=retype)
    group = removal(tenant, lambda made, unit: remove_group(made, unit, name))
    done(as_json, f"removed the group {group.name}", name=group.name, tenant=group.tenant, removed=True)


def _value(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "tenant": group.tenant,
        "title": group.title,
        "members": list(group.members),
        "created_at": group.created_at,
    }
