"""Options that many commands have. Each decorator is named for the parameter that it adds."""

from __future__ import annotations

import click

from paddock.core.ids import DEFAULT_TENANT

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
tenant = click.option("--tenant", default=str(DEFAULT_TENANT), metavar="TENANT", help="The tenant. [default: default]")
secret = click.option(
    "--secret",
    multiple=True,
    metavar="NAME=@FILE",
    help="Pass a secret that is read from a file; may be repeated.",
)
