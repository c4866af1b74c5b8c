"""`paddock plugin new`: the folder of a new plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paddock.authoring.kinds import KINDS, LANGUAGES
from paddock.cli.output import AsJson, document, reporting, say, styled


def register(app: typer.Typer) -> None:
    app.command(
        "new",
        epilog="Examples: paddock plugin new greeter"
        "   ·   paddock plugin new Letter.Answer --kind operator answers"
        "   ·   paddock plugin new lamp --lang shell",
    )(new)


@reporting
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
    as_json: AsJson = False,
) -> None:
    """Make the folder of a new plugin: a manifest, a program, a README and a test. Nothing is ever overwritten."""
    from paddock.authoring.kinds import template_for
    from paddock.authoring.scaffold import scaffold

    template = template_for(kind, language)
    folder = directory or Path(name)
    files = scaffold(template, name, folder)
    commands = template.next_commands(str(folder))
    if as_json:
        document(
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
    say(f"{styled('✓', 'green')} made {folder} with {len(files)} files; see its README.md")
    for command in commands:
        say(f"  {styled('→', 'dim')} {command}")
    if language == "python" and kind != "mcp":
        say("  Its own tests import paddock_sdk, which that Python has; plugins find it in their cage by themselves.")
