"""`paddock tenant …`: tenants, each with its own people, grants and ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, change_store, read_store, report_change
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import format_table, print_facts, print_json, print_result

if TYPE_CHECKING:
    from paddock.principals.tenants import TenantRecord

app = PaddockGroup("tenant", help="Manage tenants. They are isolated from each other.")

tenant_name_argument = click.argument("name", help="The name of the tenant, such as acme-labs.")


@app.command("add", examples=["paddock tenant add acme --title 'Acme Labs'"])
@tenant_name_argument
@click.option("--title", default="", help="The display name. [default: the name]")
@options.as_json
def add(name: str, *, title: str, as_json: bool) -> None:
    """Add a tenant, with its own people, grants and ledger."""
    from paddock.principals.tenants import add_tenant

    row = change_store(DEFAULT_TENANT_NAME, lambda change: add_tenant(change, name, title))
    report_change(
        as_json,
        f"made the tenant {row.name}; add people to it: paddock user add NAME --tenant {row.name}",
        **_tenant_json(row),
    )


@app.command("list", examples=["paddock tenant list --json"])
@options.as_json
def list_(*, as_json: bool) -> None:
    """List tenants. The tenant `default` always exists."""
    from paddock.principals.tenants import list_tenants

    rows = read_store(list_tenants)
    if as_json:
        print_json({"tenants": [_tenant_json(row) for row in rows]})
        return
    for line in format_table(
        ["TENANT", "SINCE", "TITLE"], [[row.name, (row.created_at or "")[:10], row.title] for row in rows]
    ):
        print_result(line)


@app.command("show", examples=["paddock tenant show acme"])
@tenant_name_argument
@options.as_json
def show(name: str, *, as_json: bool) -> None:
    """Show a tenant."""
    from paddock.principals.tenants import require_tenant

    row = read_store(lambda tx: require_tenant(tx, name))
    if as_json:
        print_json(_tenant_json(row))
    else:
        print_facts({"tenant": row.name, "title": row.title, "since": (row.created_at or "")[:10]})


@app.command("remove", examples=["paddock tenant remove acme --yes"])
@tenant_name_argument
@options.yes
@options.as_json
def remove(name: str, *, yes: bool, as_json: bool) -> None:
    """Remove an empty tenant: one without people, grants and ledger entries."""
    from paddock.cli.output.consent_prompt import confirm
    from paddock.principals.tenants import remove_tenant, require_tenant

    read_store(lambda tx: require_tenant(tx, name))
    confirm(f"Remove the tenant {name}?", yes=yes, retype=f"paddock tenant remove {name}")
    row = change_store(DEFAULT_TENANT_NAME, lambda change: remove_tenant(change, name))
    report_change(as_json, f"removed the tenant {row.name}", name=row.name, removed=True)


def _tenant_json(row: TenantRecord) -> dict[str, Any]:
    return {"name": row.name, "title": row.title, "created_at": row.created_at}
