"""`paddock plugin …`: collects the commands of this package."""

from __future__ import annotations

import typer

from paddock.cli.commands.plugin import (
    accept,
    check,
    configure,
    documents,
    enable,
    info,
    install,
    knobs,
    logs,
    new,
    test,
    tools,
)

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Check, install, upgrade, pin, enable and remove plugins."
)

COMMAND_MODULES = (
    new,
    check,
    test,
    install,
    info,
    logs,
    tools,
    documents,
    enable,
    accept,
    configure,
    knobs,
)

for module in COMMAND_MODULES:
    module.register(app)
