"""`paddock plugin sync`: write the tools that the program declares into its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.authoring.declarations.sync import SyncResult


@command("sync", examples=["paddock plugin sync ./my-plugin"])
@click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=False,
    default=Path(),
    metavar="[DIR]",
    help="The folder of the plugin. [default: .]",
)
@options.as_json
def sync(directory: Path, *, as_json: bool) -> None:
    """Write the tools, schemas, descriptions and version of a program into its paddock.yaml.

    The types and docstrings of the program are the declaration. It runs in a cage with nothing granted to state them.
    Effects, comments and all other fields of the manifest stay as they are.
    """
    from paddock.authoring.declarations.sync import sync_folder
    from paddock.cli.client.event_loop import run_async

    result = run_async(sync_folder(directory.resolve()))
    if as_json:
        print_json(_to_json(result))
        return
    _print_changes(result)


def _print_changes(result: SyncResult) -> None:
    from paddock.manifest.permissions import is_harmless

    name = result.manifest.name
    if not result.files:
        print_result(f"{name} {result.manifest.version}: nothing to change")
        return
    if result.version is not None:
        print_result(f"  ~ version {result.manifest.version} → {printable(result.version, 80)}")
    new = result.undeclared_effects()
    for change in result.changes:
        entry = f"{change.section}.{printable(change.name, 80)}"
        if change.fields is None:
            print_result(f"  - {entry}")
        elif change.name in new:
            print_result(f"  + {entry}")
        else:
            print_result(f"  ~ {entry}: {', '.join(change.fields)}")
    print_message(f"{styled('✓', 'green')} wrote {' and '.join(result.files)} of {name}")
    counted = (
        "counts as read-only, because nothing that it may reach can be changed"
        if is_harmless(result.manifest.capabilities)
        else "needs confirmation"
    )
    for entry in new:
        print_message(f"  {styled('!', 'yellow')} {printable(entry, 80)} declares no effects: it {counted}")
    if new:
        print_message(f"  {styled('→', 'dim')} state them in paddock.yaml, e.g. effects: [read_only]")


def _to_json(result: SyncResult) -> dict[str, Any]:
    new = result.undeclared_effects()
    return {
        "name": result.manifest.name,
        "version": result.version or result.manifest.version,
        "files": list(result.files),
        "changes": [
            {
                "section": change.section,
                "name": change.name,
                "change": "removed" if change.fields is None else "added" if change.name in new else "changed",
                "fields": sorted(change.fields or ()),
            }
            for change in result.changes
        ],
    }
