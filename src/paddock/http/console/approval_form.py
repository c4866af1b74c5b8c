"""How what somebody asks for is changed before it is approved: in a form, where that loses nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from paddock.core.errors import Problem
from paddock.http.console.forms.fields import Form, form_of
from paddock.http.console.forms.shape import Shape, shape_of

_PLAIN: Final = ("text", "long_text", "lines", "number", "range", "choice", "checks", "toggle")


def changing_form(
    schema: Mapping[str, Any] | None, params: Any, value: Any, problems: Sequence[Problem] = ()
) -> Form | None:
    """A form with what is to be changed in it; None where only JSON shows all of it.

    A parameter without a control would be lost: whoever approves must not take away what they never saw.

    Args:
        schema: What the tool takes, where that is known.
        params: What was asked for.
        value: What is in the form: the same, or what somebody made of it.
        problems: What is wrong with it.
    """
    if schema is None or not isinstance(params, dict):
        return None
    shape = shape_of(dict(schema))
    return form_of(shape, value, problems) if _shows_all(shape, cast("dict[str, Any]", params)) else None


def _shows_all(shape: Shape, params: Mapping[str, Any]) -> bool:
    if shape.control != "group":
        return False
    shown = {name for name, one in shape.fields if one.control in _PLAIN and not one.hints.hidden}
    return all(name in shown for name in (*params, *(name for name, _ in shape.fields)))
