"""`paddock tenant …`: tenants, each with its own people, grants and ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, change_store, read_store, report_change
from paddock.cli.output.report import JsonOption, YesOption, format_table, handle_errors, print_json, print_result

if TYPE_CHECKING:
    from paddock.principals.tenants import TenantRecord

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Make and remove tenants, which share nothing.")

TenantNameArgument = Annotated[str, typer.Argument(help="The tenant's name, as in acme-labs.")]


@app.command("add", epilog="Example: paddock tenant add acme --title 'Acme Labs'")
@handle_errors
def add(
    name: TenantNameArgument,
    *,
    title: Annotated[str, typer.Option(help="What people read; the name when left out.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Make a tenant. Its people, grants and record are its own."""
    from paddock.principals.tenants import add_tenant

    row = change_store(DEFAULT_TENANT_NAME, lambda change: add_tenant(change, name, title))
    report_change(
        as_json,
        f"made the tenant {row.name}; add people to it: paddock user add NAME --tenant {row.name}",
        **_tenant_json(row),
    )


@app.command("list", epilog="Example: paddock tenant list --json")
@handle_errors
def list_(*, as_json: JsonOption = False) -> None:
    """List tenants. The default one is always there."""
    from paddock.principals.tenants import list_tenants

    rows = read_store(list_tenants)
    if as_json:
        print_json({"tenants": [_tenant_json(row) for row in rows]})
        return
    for line in format_table(
        ["TENANT", "SINCE", "TITLE"], [[row.name, (row.created_at or "")[:10], row.title] for row in rows]
    ):
        print_result(line)


@app.command("remove", epilog="Example: paddock tenant remove acme --yes")
@handle_errors
def remove(name: TenantNameArgument, *, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove a tenant that nothing belongs to: no people, no grants, no entries in the record."""
    from paddock.cli.output.consent_prompt import confirm
    from paddock.principals.tenants import remove_tenant, require_tenant

    read_store(lambda tx: require_tenant(tx, name))
    confirm(f"Remove the tenant {name}?", yes=yes, retype=f"paddock tenant remove {name}")
    row = change_store(DEFAULT_TENANT_NAME, lambda change: remove_tenant(change, name))
    report_change(as_json, f"removed the tenant {row.name}", name=row.name, removed=True)


def _tenant_json(row: TenantRecord) -> dict[str, Any]:
    return {"name": row.name, "title": row.title, "created_at": row.created_at}
