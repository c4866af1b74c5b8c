"""`paddock doctor`: what works on this machine, and what to type where it does not."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from paddock.cli.output import AsJson, document, reporting, result, room

app = typer.Typer(add_completion=False)


@app.command("doctor", epilog="Example: paddock doctor --json")
@reporting
def doctor(*, as_json: AsJson = False) -> None:
    """Check Python, SQLite, the cage's parts, git, node, disk and permissions. Exit 1 when something must be mended."""
    from paddock.config.project import working_directory
    from paddock.doctor.check import exit_status, text_lines, to_json
    from paddock.doctor.machine import check_machine

    checks = check_machine(os.environ, Path.home(), working_directory())
    if as_json:
        document(to_json(checks))
    else:
        for line in text_lines(checks, room()):
            result(line)
    raise typer.Exit(exit_status(checks))
