"""A command line that no command understands: what is wrong with it, and what was probably meant."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import typer

from paddock.cli.output.report import report_error
from paddock.core.error_mapping import EXIT_USAGE
from paddock.core.errors import CallerError

_UNKNOWN_COMMAND_PATTERN = re.compile(r"No such command (['\"])(.*?)\1")

# Words that other programs use for what a command of ours does.
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
    """Tell what is wrong with the command line, as words or JSON, and give the exit code."""
    context: Any = getattr(error, "ctx", None)
    message = error.format_message().strip().rstrip(".")
    hint = f"see: {context.command_path} --help" if context is not None else "see: paddock --help"
    if context is not None and (unknown := _UNKNOWN_COMMAND_PATTERN.match(error.format_message())):
        message = f"there is no command '{unknown[2]}'"
        if meant := suggest_commands(unknown[2], context.command.list_commands(context), plugin_commands):
            hint = f"did you mean: {context.command_path if meant[0] != 'plugin' else 'paddock'} {' '.join(meant)}"
    report_error(CallerError(message[:1].lower() + message[1:], code="usage", hint=hint), as_json=as_json)
    return EXIT_USAGE


def suggest_commands(typed: str, here: list[str], plugin_commands: list[str]) -> list[str]:
    """The words that were probably meant: a command here, or one of `paddock plugin` typed without that word."""
    if typed in _FLAG_SYNONYMS:
        return [_FLAG_SYNONYMS[typed]]
    word = _COMMAND_SYNONYMS.get(typed, typed)
    if word in here:
        return [word]
    if "plugin" in here and word in plugin_commands:
        return ["plugin", word]
    if near := get_close_matches(typed, here, n=1):
        return near
    if "plugin" in here and (near := get_close_matches(typed, plugin_commands, n=1)):
        return ["plugin", *near]
    return []
