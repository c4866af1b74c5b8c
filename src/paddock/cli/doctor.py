"""`paddock doctor`: what works on this machine, and what to type where it does not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from paddock.cli.output import AsJson, document, reporting, result, room

if TYPE_CHECKING:
    from paddock.config.directories import Directories
    from paddock.doctor.daemon import Told

app = typer.Typer(add_completion=False)

PATIENCE = 10.0  # seconds for the daemon; less than doctor waits for a look


@app.command("doctor", epilog="Example: paddock doctor --json")
@reporting
def doctor(*, as_json: AsJson = False) -> None:
    """Check the programs, files and cage that plugins need, and the daemon. Exit 1 when something must be mended."""
    from paddock.config.project import working_directory
    from paddock.doctor.check import exit_status, text_lines, to_json
    from paddock.doctor.machine import check_machine

    checks = check_machine(os.environ, Path.home(), working_directory(), _told_by_the_daemon)
    if as_json:
        document(to_json(checks))
    else:
        for line in text_lines(checks, room()):
            result(line)
    raise typer.Exit(exit_status(checks))


def _told_by_the_daemon(directories: Directories) -> Told | None:
    from paddock.cli.daemon import running_daemon
    from paddock.doctor.daemon import Told

    daemon = running_daemon(directories)
    if daemon is None:
        return None
    status = daemon.get("/status", wait=PATIENCE)
    return Told(daemon.get("/plugins", wait=PATIENCE)["plugins"], status["troubles"], status["takes_calls"])
