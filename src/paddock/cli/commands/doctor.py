"""`paddock doctor`: checks of this machine and the daemon, with commands that repair what fails."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.action_text import command_line
from paddock.cli.output.report import print_json, print_result, terminal_columns

if TYPE_CHECKING:
    from paddock.config.directories import Directories
    from paddock.host.doctor.check import Check
    from paddock.host.doctor.daemon_check import DaemonReport


DAEMON_TIMEOUT_S = 10.0  # less than doctor's own timeout for a check


@command("doctor", examples=["paddock doctor --json"])
@options.as_json
def doctor(*, as_json: bool) -> None:
    """Check the programs, files and cage that plugins need, and the daemon. Exits 1 if a check fails."""
    from paddock.config.project_file import working_directory
    from paddock.host.doctor.check import exit_status, text_lines, to_json
    from paddock.host.doctor.run import check_machine

    logging.getLogger("paddock").addHandler(logging.NullHandler())  # the checks report what would be logged
    checks = list(map(_with_commands, check_machine(os.environ, Path.home(), working_directory(), _ask_daemon)))
    if as_json:
        print_json(to_json(checks))
    else:
        for line in text_lines(checks, terminal_columns()):
            print_result(line)
    raise click.exceptions.Exit(exit_status(checks))


def _with_commands(check: Check) -> Check:
    """Render the actions of a check: as its fix, or with its finding where nothing is wrong."""
    commands = [command_line(action) for action in check.actions]
    if check.status == "ok":
        return replace(check, found=": ".join((check.found, *commands)))
    return replace(check, fix="; ".join((*filter(None, [check.fix]), *commands)))


def _ask_daemon(directories: Directories) -> DaemonReport | None:
    from paddock.cli.client.api_client import running_daemon
    from paddock.host.doctor.daemon_check import DaemonReport

    daemon = running_daemon(directories)
    if daemon is None:
        return None
    status = daemon.get("/status", timeout_s=DAEMON_TIMEOUT_S)
    return DaemonReport(
        daemon.get("/plugins", timeout_s=DAEMON_TIMEOUT_S)["plugins"], status["troubles"], status["takes_calls"]
    )
