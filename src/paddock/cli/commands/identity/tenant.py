"""`paddock tenant …`: tenants, each with its own people, grants and ledger."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.client.api_client import named_path
from paddock.cli.client.identity_client import open_identity_client
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import format_table, print_facts, print_json, print_result, report_change

app = PaddockGroup("tenant", help="Manage tenants. They are isolated from each other.")

tenant_name_argument = click.argument("name", help="The name of the tenant, such as acme-labs.")


@app.command("add", examples=["paddock tenant add acme --title 'Acme Labs'"])
@tenant_name_argument
@click.option("--title", default="", help="The display name. [default: the name]")
@options.as_json
def add(name: str, *, title: str, as_json: bool) -> None:
    """Add a tenant, with its own people, grants and ledger."""
    with open_identity_client() as client:
        tenant = client.post("/tenants", {"name": name, "title": title})
    report_change(as_json, f"made the tenant {name}; add people to it: paddock user add NAME --tenant {name}", **tenant)


@app.command("list", examples=["paddock tenant list --json"])
@options.as_json
def list_(*, as_json: bool) -> None:
    """List tenants. The tenant `default` always exists."""
    with open_identity_client() as client:
        tenants = client.get("/tenants")
    if as_json:
        print_json(tenants)
        return
    cells = [[row["name"], (row["created_at"] or "")[:10], row["title"]] for row in tenants["tenants"]]
    for line in format_table(["TENANT", "SINCE", "TITLE"], cells):
        print_result(line)


@app.command("show", examples=["paddock tenant show acme"])
@tenant_name_argument
@options.as_json
def show(name: str, *, as_json: bool) -> None:
    """Show a tenant."""
    with open_identity_client() as client:
        tenant = client.get(_tenant_path(name))
    if as_json:
        print_json(tenant)
    else:
        print_facts({"tenant": tenant["name"], "title": tenant["title"], "since": (tenant["created_at"] or "")[:10]})


@app.command("remove", examples=["paddock tenant remove acme --yes"])
@tenant_name_argument
@options.yes
@options.as_json
def remove(name: str, *, yes: bool, as_json: bool) -> None:
    """Remove an empty tenant: one without people, grants and ledger entries."""
    from paddock.cli.output.consent_prompt import confirm

    with open_identity_client() as client:
        client.get(_tenant_path(name))
        confirm(f"Remove the tenant {name}?", yes=yes, retype=f"paddock tenant remove {name}")
        client.delete(_tenant_path(name))
    report_change(as_json, f"removed the tenant {name}", name=name, removed=True)


def _tenant_path(name: str) -> str:
    from paddock.principals.tenants import unknown_tenant_error

    return named_path("/tenants", name, lambda: unknown_tenant_error(name))
