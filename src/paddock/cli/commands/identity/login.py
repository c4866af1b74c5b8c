"""`paddock login`: a one-time link that signs a person in at the console."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.client.identity_client import open_identity_client
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_result


@command("login", examples=["paddock login", "paddock login --user ann"])
@click.option("--user", metavar="PERSON", help="The person to sign in. [default: you, the operator]")
@options.tenant
@options.as_json
def login(*, user: str | None, tenant: str, as_json: bool) -> None:
    """Print a one-time sign-in link for the console. It is valid for 15 minutes; keep it private."""
    with open_identity_client(tenant) as client:
        link = client.post("/login-links", {"person": user} if user else {})
    if as_json:
        print_json(link)
        return
    print_message(f"this signs {link['person']} in, once, until {link['expires_at'][:16].replace('T', ' ')} UTC:")
    print_result(link["url"])
