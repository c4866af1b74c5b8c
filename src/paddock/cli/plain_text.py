"""Text that was typed needs no conversion, so commands take it without the validation library.

Typer converts every parameter through pydantic and imports that for the first one that is not a flag, which takes as
long as a whole `plugin list`. A parameter that is plain text is given its own conversion here: none. Everything else
(paths, numbers, choices) stays with typer, and so does all of it when typer is not built as we know it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import typer

_TEXT = (str, list[str])


class PlainText:
    """What typer asks for a parameter's value; the shape is typer's own."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as it is; a parameter that may be repeated and was left out has no values."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        for text in cast("Iterable[str]", [value] if isinstance(value, str) else value):
            # Bytes that are no UTF-8 come as lone surrogates, which could be neither stored nor shown.
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise typer.BadParameter("is not valid UTF-8", ctx=ctx, param=param)
        return value


def take_text_as_it_is(command: Any) -> None:
    """Give every plain text parameter of a command, and of the commands below it, its own conversion."""
    for parameter in command.params:
        descriptor = getattr(parameter, "type_descriptor", None)
        if descriptor is not None and descriptor.annotation in _TEXT and descriptor.parameter_info.parser is None:
            parameter._runtime_param = PlainText()
    for below in getattr(command, "commands", {}).values():
        take_text_as_it_is(below)
