"""`paddock login`: a one-time link that signs a person in at the console."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.client.store_access import change_store, local_principal
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_result


@command("login", examples=["paddock login", "paddock login --user ann"])
@click.option("--user", metavar="PERSON", help="The person to sign in. [default: you, the operator]")
@options.tenant
@options.as_json
def login(*, user: str | None, tenant: str, as_json: bool) -> None:
    """Print a one-time sign-in link for the console. It is valid for 15 minutes; keep it private."""
    from paddock.core.clock import SystemRandom
    from paddock.principals.login_links import make_link

    base_url = _console_base_url()
    person = user or local_principal()
    link, token = change_store(tenant, lambda change: make_link(change, person, SystemRandom()))
    url = f"{base_url}/login/{token.reveal()}"
    if as_json:
        print_json({"url": url, "person": link.subject, "tenant": link.tenant, "expires_at": link.expires_at})
        return
    print_message(f"this signs {link.subject} in, once, until {link.expires_at[:16].replace('T', ' ')} UTC:")
    print_result(url)


def _console_base_url() -> str:
    """Return the base URL of this home's daemon.

    Raises:
        Unreachable: no daemon serves the console.
    """
    from paddock.cli.client.local_store import open_for_read
    from paddock.web.daemon_address import console_url

    with open_for_read() as host:
        return console_url(host.directories, host.loaded.settings.http)
