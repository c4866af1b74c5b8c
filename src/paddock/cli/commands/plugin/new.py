"""`paddock plugin new`: create the folder of a new plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paddock.authoring.template_catalog import KINDS, LANGUAGES
from paddock.cli.output.report import JsonOption, handle_errors, print_json, print_message, styled


def register(app: typer.Typer) -> None:
    app.command(
        "new",
        epilog="Examples: paddock plugin new greeter"
        "   ·   paddock plugin new Letter.Answer --kind operator answers"
        "   ·   paddock plugin new lamp --lang shell",
    )(new)


@handle_errors
def new(
    name: Annotated[str, typer.Argument(help="What the plugin is called.")],
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The folder to make; the plugin's name when left out.")
    ] = None,
    *,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help=f"One of {', '.join(KINDS)}.")] = "plugin",
    language: Annotated[
        str, typer.Option("--lang", metavar="LANG", help=f"One of {', '.join(LANGUAGES)}; not all for each kind.")
    ] = "python",
    as_json: JsonOption = False,
) -> None:
    """Make the folder of a new plugin: a manifest, a program, a README and a test. Nothing is ever overwritten."""
    from paddock.authoring.scaffold import create_plugin_folder
    from paddock.authoring.template_catalog import find_template

    template = find_template(kind, language)
    folder = directory or Path(name)
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
    for command in commands:
        print_message(f"  {styled('→', 'dim')} {command}")
    if language == "python" and kind != "mcp":
        print_message(
            "  Its own tests import paddock_sdk, which that Python has; plugins find it in their cage by themselves."
        )
