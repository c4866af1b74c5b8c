"""`paddock config show`: every setting, its value, and its origin."""

from __future__ import annotations

import os
from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import format_table, print_json, print_problems, print_result

app = PaddockGroup("config", help="Show the settings and where each value comes from.")


@app.command("show", examples=["paddock config show --origin"])
@click.option("--origin", is_flag=True, help="Also show where each value comes from.")
@options.as_json
def show(*, origin: bool, as_json: bool) -> None:
    """Show every setting. Secrets are never shown."""
    from paddock.config.directories import find_directories
    from paddock.config.load import load_settings
    from paddock.config.project_file import working_directory

    loaded = load_settings(find_directories(os.environ, Path.home()), os.environ, cwd=working_directory())
    rows = loaded.rows()
    print_problems(loaded.warnings, "!", "yellow")
    if as_json:
        settings = {name: {"value": value, "origin": str(value_origin)} for name, value, value_origin in rows}
        print_json({"settings": settings, "warnings": [problem.to_dict() for problem in loaded.warnings]})
        return
    headings = ["SETTING", "VALUE", "ORIGIN"] if origin else ["SETTING", "VALUE"]
    for line in format_table(
        headings, [[name, value, str(value_origin)][: len(headings)] for name, value, value_origin in rows]
    ):
        print_result(line)
