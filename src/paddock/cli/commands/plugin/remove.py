"""`paddock plugin remove`."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, styled


@command("remove", examples=["paddock plugin remove notes --yes"])
@click.argument("name", help="The name of an installed plugin.")
@click.option("--version", help="Remove only this version.")
@click.option("--force", is_flag=True, help="Remove it even if it is pinned.")
@options.yes
@options.as_json
def remove(name: str, *, version: str | None, force: bool, yes: bool, as_json: bool) -> None:
    """Remove a plugin with all its versions, files, grants, data and configuration."""
    from paddock.cli.client.api_client import open_client_for_change, plugin_path
    from paddock.cli.output.consent_prompt import confirm

    retype = f"paddock plugin remove {name}" + (f" --version {version}" if version else "")
    subject = f"version {version} of {name}" if version else f"{name} with all its versions, data and configuration"
    path, body = f"{plugin_path(name)}/remove", {"force": force} | ({"version": version} if version else {})
    with open_client_for_change() as client:
        client.post(path, body | {"dry_run": True})  # do not ask about what cannot be removed
        confirm(f"Remove {subject}?", yes=yes, retype=retype)
        removed = client.post(path, body)
    plugin, purge_pending = removed["name"], removed["purge_pending"]
    if as_json:
        print_json({"name": plugin, "action": "uninstalled", "version": version, "purge_pending": purge_pending})
    if purge_pending:
        print_message(f"{styled('✓', 'green')} removed {plugin} with all its versions and configuration")
        print_message(
            f"  {styled('→', 'dim')} its data will be dropped when its last call has ended; the daemon sees to that"
        )
    else:
        print_message(f"{styled('✓', 'green')} removed {subject}")
