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
    from paddock.cli.client.local_store import apply_removals, clean_up_killed_commands, open_for_read
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.manage import remove as removal
    from paddock.plugins.store.purge import pending_purges

    retype = f"paddock plugin remove {name}" + (f" --version {version}" if version else "")
    subject = f"version {version} of {name}" if version else f"{name} with all its versions, data and configuration"
    with open_for_read() as host:
        clean_up_killed_commands(host)
        removal.check_removable(host.plugins, name, force=force or version is not None)
        confirm(f"Remove {subject}?", yes=yes, retype=retype)
        if version is not None:
            removal.uninstall_version(host.plugins, name, version, force=force)
            removed = name
        else:
            removed = removal.uninstall(host.plugins, name, force=force).name
        apply_removals(host)
        purge_pending = version is None and removed in pending_purges(host.plugins)
    if as_json:
        print_json({"name": removed, "action": "uninstalled", "version": version, "leaving": purge_pending})
    if purge_pending:
        print_message(f"{styled('✓', 'green')} removed {removed} with all its versions and configuration")
        print_message(
            f"  {styled('→', 'dim')} its data will be dropped when its last call has ended; the daemon sees to that"
        )
    else:
        print_message(f"{styled('✓', 'green')} removed {subject}")
