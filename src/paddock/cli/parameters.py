"""Command parameters without type conversion, to avoid importing pydantic.

Typer converts every parameter through pydantic and imports that for the first one without a value, even for `--help`;
the import takes as long as a whole `plugin list`. Parameters that are plain text or flags get a no-op conversion here.
Everything else (paths, numbers, choices) stays with typer, and so does all of it if typer's internals differ from what
is expected here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import typer


class UnconvertedParameter:
    """A no-op converter, with typer's interface."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value unchanged; an omitted parameter that may be repeated has no values."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, bool):
            return value
        for text in cast("Iterable[str]", [value] if isinstance(value, str) else value):
            # Bytes that are not UTF-8 arrive as lone surrogates, which can be neither stored nor printed.
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise typer.BadParameter("is not valid UTF-8", ctx=ctx, param=param)
        return value


def skip_conversion(parameters: Iterable[Any]) -> None:
    """Give every parameter that is plain text or a flag a no-op conversion."""
    for parameter in parameters:
        _simplify_help_type(parameter)
        descriptor = getattr(parameter, "type_descriptor", None)
        if (
            descriptor is not None
            and descriptor.parameter_info.parser is None
            and _needs_no_conversion(parameter, descriptor)
        ):
            parameter._runtime_param = UnconvertedParameter()


def _simplify_help_type(parameter: Any) -> None:
    """Set the type in the help text: none for a flag or an argument, TEXT for an option that takes text."""
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = _hide_type
        if parameter.metavar is None and parameter.nargs == 1:
            parameter.metavar = parameter.name.upper()
    elif parameter.metavar is None and parameter.is_flag:
        parameter.metavar = ""
    elif parameter.metavar is None and parameter.type_descriptor.annotation in (str, list[str]):
        parameter.metavar = "TEXT"


def _hide_type(ctx: Any) -> None:
    del ctx


def _needs_no_conversion(parameter: Any, descriptor: Any) -> bool:
    if descriptor.annotation in (str, list[str]):
        return True
    # A flag with an environment variable gets text, and typer knows which words mean yes.
    return descriptor.annotation is bool and getattr(parameter, "is_flag", False) and parameter.envvar is None


def skip_conversion_recursively(command: Any, ctx: Any) -> None:
    """Skip conversion for a command, its `--help`, and its subcommands."""
    skip_conversion(command.get_params(ctx))
    for subcommand in getattr(command, "commands", {}).values():
        skip_conversion_recursively(subcommand, ctx)
