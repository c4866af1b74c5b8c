"""Usage errors: what is wrong with a command line, and which command was probably meant."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import typer

from paddock.cli.output.report import report_error
from paddock.core.error_mapping import EXIT_USAGE
from paddock.core.errors import CallerError

_UNKNOWN_COMMAND_PATTERN = re.compile(r"No such command (['\"])(.*?)\1")

# Names that other programs use for the same commands.
_COMMAND_SYNONYMS = {
    "remove": "uninstall",
    "rm": "uninstall",
    "delete": "uninstall",
    "show": "info",
    "ls": "list",
    "update": "upgrade",
    "add": "install",
    "plugins": "plugin",
    "keys": "key",
    "settings": "config",
}
_FLAG_SYNONYMS = {"help": "--help", "version": "--version"}


def report_usage_error(error: typer.TyperException, *, as_json: bool, plugin_commands: list[str]) -> int:
    """Print a usage error as text or JSON, and return the exit code."""
    context: Any = getattr(error, "ctx", None)
    message = error.format_message().strip().rstrip(".")
    hint = f"see: {context.command_path} --help" if context is not None else "see: paddock --help"
    if context is not None and (unknown := _UNKNOWN_COMMAND_PATTERN.match(error.format_message())):
        message = f"there is no command '{unknown[2]}'"
        if suggestion := suggest_commands(unknown[2], context.command.list_commands(context), plugin_commands):
            program = context.command_path if suggestion[0] != "plugin" else "paddock"
            hint = f"did you mean: {program} {' '.join(suggestion)}"
    report_error(CallerError(message[:1].lower() + message[1:], code="usage", hint=hint), as_json=as_json)
    return EXIT_USAGE


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
