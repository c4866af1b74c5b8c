"""Usage errors: what is wrong with a command line, and which command was probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import cast

import click

from paddock.cli.output.report import report_error
from paddock.core.error_formats import EXIT_USAGE
from paddock.core.errors import CallerError

# Names that other programs use for the same commands.
_COMMAND_SYNONYMS = {
    "uninstall": "remove",
    "rm": "remove",
    "delete": "remove",
    "revoke": "remove",
    "create": "add",
    "new": "add",
    "info": "show",
    "ls": "list",
    "update": "upgrade",
    "add": "install",
    "settings": "config",
}
_FLAG_SYNONYMS = {"help": "--help", "version": "--version"}


def report_usage_error(error: click.ClickException, *, as_json: bool) -> int:
    """Print a usage error as text or JSON, and return the exit code."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message().strip().rstrip(".")
    hint = f"see: {context.command_path} --help" if context is not None else "see: paddock --help"
    if isinstance(error, click.NoSuchCommand) and context is not None:
        message = f"there is no command '{error.command_name}'"
        if suggestion := _suggest_in(context, error.command_name):
            program = context.command_path if suggestion[0] != "plugin" else "paddock"
            hint = f"did you mean: {program} {' '.join(suggestion)}"
    report_error(CallerError(message[:1].lower() + message[1:], code="usage", hint=hint), as_json=as_json)
    return EXIT_USAGE


def _suggest_in(context: click.Context, typed: str) -> list[str]:
    group, root = cast("click.Group", context.command), context.find_root()
    plugin_group = cast("click.Group", cast("click.Group", root.command).get_command(root, "plugin"))
    return suggest_commands(typed, group.list_commands(context), plugin_group.list_commands(context))


def suggest_commands(typed: str, available: list[str], plugin_commands: list[str]) -> list[str]:
    """Return the probable command: one of this group, or one of `paddock plugin` typed without that word."""
    if typed in _FLAG_SYNONYMS:
        return [_FLAG_SYNONYMS[typed]]
    word = _COMMAND_SYNONYMS.get(typed, typed)
    if word in available:
        return [word]
    if "plugin" in available and word in plugin_commands:
        return ["plugin", word]
    if close := get_close_matches(typed, available, n=1):
        return close
    if "plugin" in available and (close := get_close_matches(typed, plugin_commands, n=1)):
        return ["plugin", *close]
    return []
