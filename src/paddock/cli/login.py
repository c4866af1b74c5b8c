"""`paddock login`: a link that signs somebody in at the console, once."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli.output import AsJson, document, reporting, result, say
from paddock.cli.principals import DEFAULT, OfTenant, at_this_machine, change

app = typer.Typer(add_completion=False)


@app.command("login", epilog="Examples: paddock login   ·   paddock login --user ann")
@reporting
def login(
    *,
    user: Annotated[
        str | None, typer.Option("--user", metavar="PERSON", help="Whom it signs in; you, the operator, without.")
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Print a link that signs somebody in at the console, once, within a quarter of an hour. Give it to nobody else."""
    from paddock.core.clock import SystemRandom
    from paddock.principals.login_links import make_link

    base = _base()
    who = user or at_this_machine()
    link, token = change(tenant, lambda made: make_link(made, who, SystemRandom()))
    url = f"{base}/login/{token.reveal()}"
    if as_json:
        document({"url": url, "person": link.subject, "tenant": link.tenant, "expires_at": link.expires_at})
        return
    say(f"this signs {link.subject} in, once, until {link.expires_at[:16].replace('T', ' ')} UTC:")
    result(url)


def _base() -> str:
    """Where the daemon of this home is found.

    Raises:
        Unreachable: it is not.
    """
    from paddock.cli.opening import reading
    from paddock.http.local_address import console_url

    with reading() as host:
        return console_url(host.directories, host.loaded.settings.http)
