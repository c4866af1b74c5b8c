"""`paddock tenant …`: who shares people, grants and a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, table
from paddock.cli.principals import DEFAULT, change, done, read

if TYPE_CHECKING:
    from paddock.principals.tenants import TenantRow

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Make and remove tenants, which share nothing.")

Name = Annotated[str, typer.Argument(help="The tenant's name, as in acme-labs.")]


@app.command("add", epilog="Example: paddock tenant add acme --title 'Acme Labs'")
@reporting
def add(
    name: Name,
    *,
    title: Annotated[str, typer.Option(help="What people read; the name when left out.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a tenant. Its people, grants and record are its own."""
    from paddock.principals.tenants import add_tenant

    row = change(DEFAULT, lambda made: add_tenant(made, name, title))
    done(
        as_json,
        f"made the tenant {row.name}; add people to it: paddock user add NAME --tenant {row.name}",
        **_value(row),
    )


@app.command("list", epilog="Example: paddock tenant list --json")
@reporting
def list_(*, as_json: AsJson = False) -> None:
    """List tenants. The default one is always there."""
    from paddock.principals.tenants import tenants

    rows = read(tenants)
    if as_json:
        document({"tenants": [_value(row) for row in rows]})
        return
    for line in table(
        ["TENANT", "SINCE", "TITLE"], [[row.name, (row.created_at or "")[:10], row.title] for row in rows]
    ):
        result(line)


@app.command("remove", epilog="Example: paddock tenant remove acme --yes")
@reporting
def remove(name: Name, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a tenant that nothing belongs to: no people, no grants, no entries in the record."""
    from paddock.cli.consent import confirm
    from paddock.principals.tenants import remove_tenant, require_tenant

    read(lambda tx: require_tenant(tx, name))
    confirm(f"Remove the tenant {name}?", yes=yes, retype=f"paddock tenant remove {name}")
    row = change(DEFAULT, lambda made: remove_tenant(made, name))
    done(as_json, f"removed the tenant {row.name}", name=row.name, removed=True)


def _value(row: TenantRow) -> dict[str, Any]:
    return {"name": row.name, "title": row.title, "created_at": row.created_at}
