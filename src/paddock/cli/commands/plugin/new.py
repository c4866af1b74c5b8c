"""`paddock plugin new`: create the folder of a new plugin."""

from __future__ import annotations

from pathlib import Path

import click

from paddock.authoring.template_catalog import KINDS, LANGUAGES
from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, styled


@command(
    "new",
    examples=[
        "paddock plugin new greeter",
        "paddock plugin new Letter.Answer --kind operator answers",
        "paddock plugin new lamp --lang shell",
    ],
)
@click.argument("name", help="The name of the plugin.")
@click.argument(
    "directory",
    type=click.Path(path_type=Path),
    required=False,
    metavar="[DIR]",
    help="The folder to create. [default: the plugin's name]",
)
@click.option("--kind", default="plugin", metavar="KIND", help=f"One of {', '.join(KINDS)}.")
@click.option(
    "--lang",
    "language",
    default="python",
    metavar="LANG",
    help=f"One of {', '.join(LANGUAGES)}; not all for each kind.",
)
@options.as_json
def new(name: str, directory: Path | None, *, kind: str, language: str, as_json: bool) -> None:
    """Create a new plugin in a folder: a manifest, a program, a README and a test. Existing files are kept."""
    from paddock.authoring.scaffold import check_arguments, create_plugin_folder
    from paddock.authoring.template_catalog import find_template

    folder = directory or Path(name)
    check_arguments(kind, language, name, folder)
    template = find_template(kind, language)
    files = create_plugin_folder(template, name, folder)
    commands = template.next_commands(str(folder))
    if as_json:
        print_json(
            {
                "name": name,
                "kind": kind,
                "language": language,
                "folder": str(folder.resolve()),
                "files": list(files),
                "next": list(commands),
            }
        )
        return
    print_message(f"{styled('✓', 'green')} made {folder} with {len(files)} files; see its README.md")
    for line in commands:
        print_message(f"  {styled('→', 'dim')} {line}")
    if language == "python" and kind != "mcp":
        print_message(
            "  Its own tests import paddock_sdk, which that Python has; plugins find it in their cage by themselves."
        )
