"""Edits of the inputs of a request: fields with their exact values, and what a person changed in them. Pure.

Every field is sent, whether it was opened or not. Only a field whose text differs from the one that was sent to the
browser is an edit, so that a form which cannot show a value exactly never changes it, and no change goes unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import PRESENT_SUFFIX, FormField, FormView, build_form
from paddock.console.forms.parse import RAW_JSON_FIELD, FormTexts, parse_form
from paddock.console.text.input_diff import as_json, in_form_order
from paddock.core.errors import Problem

FIELDS_MARK: Final = "_fields"
"""Name of the input that shows that the form had fields."""
_EDITABLE_CONTROLS: Final = ("text", "long_text", "lines", "number", "range", "choice", "checks", "toggle")
_MAX_TITLE_CHARS: Final = 40  # before a name, which has to be seen in a list too
_MISSING: Final = object()


class InputEdits(Struct, frozen=True):
    """What a person submitted.

    Attributes:
        value: The inputs as edited; None if nothing was changed.
        problems: What could not be parsed.
    """

    value: dict[str, Any] | None = None
    problems: tuple[Problem, ...] = ()


class InputView(Struct, frozen=True):
    """One input as the page of a request shows it.

    Attributes:
        text: Its exact value; None if it was not given.
        field: Its control; None if it can only be edited as JSON.
        changed: Whether the field holds an edit.
    """

    name: str
    title: str
    text: str | None
    field: FormField | None = None
    changed: bool = False


def build_edit_form(
    schema: Mapping[str, Any] | None, params: Any, value: Any, problems: Sequence[Problem] = ()
) -> FormView | None:
    """Build a form for editing the inputs; None if only JSON can show all of them.

    An input without a control would be lost: approvers must not remove what they never saw.

    Args:
        schema: The tool's input schema, if known.
        params: The requested inputs.
        value: The values in the form: the requested ones, or an edited version.
        problems: Problems of the edited version.
    """
    if schema is None or not isinstance(params, dict):
        return None
    shape = build_control(dict(schema))
    return build_form(shape, value, problems) if _covers_all_params(shape, cast("dict[str, Any]", params)) else None


def input_titles(schema: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the titles of a tool's inputs by their names, in the order of its form; none if the schema is unknown.

    People approve values by them, and a plugin writes them: a title that is not its input's name is followed by the
    name, and titles that several inputs share are left out.
    """
    shape = build_control(dict(schema or {}))
    titles = {name: control.title or name for name, control in shape.fields} if shape.control == "group" else {}
    shared = Counter(map(_essence, titles.values()))
    return {
        name: name
        if shared[_essence(title)] > 1
        else title
        if _essence(title) == _essence(name)
        else _both(title, name)
        for name, title in titles.items()
    }


def _essence(text: str) -> str:
    """Return a title or a name without what may differ between the two."""
    return "".join(text.replace("_", " ").replace("-", " ").split()).casefold()


def _both(title: str, name: str) -> str:
    return f"{title if len(title) <= _MAX_TITLE_CHARS else title[: _MAX_TITLE_CHARS - 1] + '…'} ({name})"


def view_inputs(
    params: Mapping[str, Any], titles: Mapping[str, str], form: FormView | None, edited: Mapping[str, Any]
) -> list[InputView]:
    """Return every input with its exact value, in the order of the form; `edited` are the inputs with the edits."""

    def text_of(name: str) -> str | None:
        value = params.get(name, _MISSING)
        return None if value is _MISSING else value if isinstance(value, str) else as_json(value)

    if form is None:
        return [InputView(name, titles.get(name, name), text_of(name)) for name in in_form_order(params, titles)]
    names = [name for name, _ in form.root.shape.fields]
    return [
        InputView(
            name,
            titles.get(name, name),
            text_of(name),
            field,
            changed=bool(field.problems) or _text(edited, name) != _text(params, name),
        )
        for name, field in zip(names, form.fields, strict=True)
    ]


def read_edits(schema: Mapping[str, Any] | None, params: Mapping[str, Any], texts: FormTexts) -> InputEdits:
    """Return what was edited: as JSON, or in fields."""
    shape = build_control(dict(schema or {}))
    if RAW_JSON_FIELD in texts:
        value, problems = parse_form(shape, texts)
        unchanged = not problems and as_json(value) == as_json(params)
        return InputEdits() if unchanged else InputEdits(value, tuple(problems))
    if FIELDS_MARK not in texts:
        return InputEdits()
    form = build_edit_form(schema, params, params)
    if form is None or not _known_names(form).issuperset(name for name in texts if name.startswith("/")):
        # What was edited in a field that is gone must not be approved as it was asked for.
        problem = Problem("", "the form of this tool has changed, and nothing was approved", "look at the inputs again")
        return InputEdits(problems=(problem,))
    before, _ = parse_form(shape, _sent_texts(form))
    now, problems = parse_form(shape, texts)
    changed = [name for name, _ in shape.fields if _text(now, name) != _text(before, name)]
    if not changed:
        return InputEdits()
    edited: dict[str, Any] = {name: value for name, value in params.items() if name not in changed}
    return InputEdits(edited | {name: now[name] for name in changed if name in now}, tuple(problems))


def _known_names(form: FormView) -> set[str]:
    return {name for field in form.fields for name in (field.name, field.name + PRESENT_SUFFIX)}


def _text(value: Mapping[str, Any], name: str) -> str:
    return as_json(value[name]) if name in value else ""


def _sent_texts(form: FormView) -> dict[str, list[str]]:
    """Return what a browser submits if nothing was edited."""
    texts: dict[str, list[str]] = {}
    for field in form.fields:
        shape = field.shape
        match shape.control:
            case "checks":
                texts[field.name] = [option.text for option in shape.options if option.text in field.chosen_texts]
            case "toggle" if not (shape.nullable or (not shape.required and "default" not in shape.schema)):
                texts[field.name + PRESENT_SUFFIX] = ["1"]
                texts[field.name] = ["true"] if field.value is True else []
            case "toggle":
                texts[field.name] = ["true" if field.value is True else "false" if field.value is False else ""]
            case "choice":
                chosen = [option.text for option in shape.options if option.text in field.chosen_texts]
                has_empty = shape.nullable or not shape.required or field.value is None
                options = [option.text for option in shape.options if option.value is not None]
                texts[field.name] = chosen[:1] or ([""] if has_empty else options[:1])
            case "text":  # one line: a browser drops line breaks
                texts[field.name] = [field.text.replace("\r", "").replace("\n", "")]
            case _:
                texts[field.name] = [field.text]
    return {name: given for name, given in texts.items() if given}


def _covers_all_params(shape: FormControl, params: Mapping[str, Any]) -> bool:
    if shape.control != "group":
        return False
    editable = {
        name for name, control in shape.fields if control.control in _EDITABLE_CONTROLS and not control.hints.hidden
    }
    return all(name in editable for name in (*params, *(name for name, _ in shape.fields)))
