"""Text and flags need no conversion, so commands take them without the validation library.

Typer converts every parameter through pydantic and imports that for the first one that has no value yet, be it only
`--help`; the import takes as long as a whole `plugin list`. Parameters that are plain text or flags are given their
own conversion here: none. Everything else (paths, numbers, choices) stays with typer, and so would all of it if typer
were not built as we know it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import typer


class UnconvertedParameter:
    """What typer asks for a parameter's value; the shape is typer's own."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as it is; a parameter that may be repeated and was left out has no values."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, bool):
            return value
        for text in cast("Iterable[str]", [value] if isinstance(value, str) else value):
            # Bytes that are no UTF-8 come as lone surrogates, which could be neither stored nor shown.
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise typer.BadParameter("is not valid UTF-8", ctx=ctx, param=param)
        return value


def skip_conversion(parameters: Iterable[Any]) -> None:
    """Give every parameter that is plain text or a flag its own conversion."""
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
    """Help names what a person writes: nothing beside a flag or an argument, TEXT where an option takes some."""
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
    # A flag that a variable can set gets text, and typer knows which words mean yes.
    return descriptor.annotation is bool and getattr(parameter, "is_flag", False) and parameter.envvar is None


def skip_conversion_recursively(command: Any, ctx: Any) -> None:
    """The same for a command, its `--help`, and the commands below it."""
    skip_conversion(command.get_params(ctx))
    for below in getattr(command, "commands", {}).values():
        skip_conversion_recursively(below, ctx)
