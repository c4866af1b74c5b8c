"""`paddock import FILE`: MCP servers that another program has in its settings become plugins of ours."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, say, show_problems

app = typer.Typer(add_completion=False)


@app.command("import", epilog="Examples: paddock import ~/.config/claude/mcp.json   ·   paddock import server.mcpb")
@reporting
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="mcpServers JSON, .vscode/mcp.json, server.json or .mcpb.", exists=True, dir_okay=False
        ),
    ],
    *,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Import just this server; repeat it for more.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Import MCP servers. Each is shown and asked about; keys move into local.toml, which only you can read."""
    from paddock.cli.opening import changing
    from paddock.cli.plugin_changes import settle, take
    from paddock.core.errors import NotFound
    from paddock.manifest.read import read_file
    from paddock.plugins.preparing import prepare_manifest
    from paddock.plugins.sources import ARCHIVE_SUFFIXES, parse_source

    retype = f"paddock import {shlex.quote(str(file))}" + "".join(f" --only {name}" for name in only or [])
    if file.suffix.lower() in ARCHIVE_SUFFIXES:
        with changing() as host:
            take(host.plugins, parse_source(str(file)), [], retype, yes=yes, as_json=as_json)
        return
    reading = read_file(file)
    plugins = [one for one in reading.all() if not only or one.manifest.name in only]
    missing = set(only or []) - {one.manifest.name for one in plugins}
    if missing:
        known = ", ".join(one.manifest.name for one in reading.plugins)
        raise NotFound(
            f"{file.name} has no server {', '.join(sorted(missing))}",
            code="import.no_such_server",
            hint=f"it has: {known}",
        )
    show_problems(reading.warnings, "!", "yellow")
    taken: list[dict[str, object]] = []
    with changing() as host:
        for index, one in enumerate(plugins):
            if len(plugins) > 1:
                say(f"[{index + 1}/{len(plugins)}]")
            with prepare_manifest(host.plugins, one.manifest, one.values, file.resolve()) as prepared:
                taken.append(settle(host.plugins, prepared, [], retype, yes=yes))
    if as_json:
        document({"imported": taken})
