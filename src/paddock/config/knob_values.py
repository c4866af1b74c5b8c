"""Knob values that people set: which of them a plugin version accepts, and the problems of new ones. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from paddock.config.plugin_config import project_config_problems
from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import compile_trusted, join_path
from paddock.manifest.model import Knob, Manifest
from paddock.manifest.rules.knobs import value_schema

MAX_KNOB_TEXT_CHARS = 65_536  # the whole configuration goes to the plugin in one message


class KnobUpdate(Struct, frozen=True):
    """A change of a plugin's knobs: values for some, and the default again for others."""

    values: Mapping[str, Any]
    reset: tuple[str, ...] = ()


class RejectedKnobValueJson(TypedDict):
    """A stored value that this version of the plugin does not accept."""

    knob: str
    value: Any
    reason: str


class RejectedKnobValue(Struct, frozen=True):
    """A stored value that this version of the plugin does not accept. It is kept, and not used."""

    knob: str
    value: Any
    reason: str

    def to_value(self) -> RejectedKnobValueJson:
        return {"knob": self.knob, "value": self.value, "reason": self.reason}


class KnobFit(Struct, frozen=True):
    """The stored knob values, split into accepted and rejected: `values` are used, by knob."""

    values: Mapping[str, Any]
    left_out: tuple[RejectedKnobValue, ...] = ()


def config_field(knob: Knob) -> str:
    """The configuration field that a knob writes."""
    return knob.binds_to.removeprefix("config.")


def config_fields(manifest: Manifest, values: Mapping[str, Any]) -> dict[str, Any]:
    """Knob values as the configuration fields that they write."""
    return {config_field(knob): values[knob.name] for knob in manifest.knobs if knob.name in values}


def fit_knob_values(manifest: Manifest, stored: Mapping[str, Any]) -> KnobFit:
    """Select the values that the plugin can be given. One that an upgrade made invalid must not prevent its start.

    Rejects as few as possible: those that the knob or the schema names, and all of them where it names none.
    """
    values: dict[str, Any] = {}
    left_out: list[RejectedKnobValue] = []
    writers: dict[str, str] = {}  # by field
    for name, value in stored.items():
        knob = _find_knob(manifest, name)
        if knob is None:
            left_out.append(RejectedKnobValue(name, value, "this version has no such knob"))
        elif problems := _knob_problems(knob, value, ""):
            left_out.append(RejectedKnobValue(name, value, _problems_text(problems)))
        elif (other := writers.setdefault(config_field(knob), name)) != name:
            left_out.append(RejectedKnobValue(name, value, f"{other} writes the same field now"))
        else:
            values[name] = value
    while values and (rejections := _schema_rejections(manifest, values)):
        # A problem that names no knob applies to all of them together.
        blamed = {name for name, _ in rejections if name in values}
        for name in sorted(blamed or values):
            text = _problems_text(problem for knob_name, problem in rejections if knob_name == name or not blamed)
            left_out.append(RejectedKnobValue(name, values.pop(name), text))
    return KnobFit(values, tuple(left_out))


def apply_knob_update(manifest: Manifest, stored: Mapping[str, Any], update: KnobUpdate) -> dict[str, Any]:
    """The stored values after an update.

    Null resets a knob to its default. Exception: where the default is not null and the knob accepts null, as with an
    optional model, null is stored as a value.

    Raises:
        Invalid: Every mistake, with its path in `knobs` or `reset`; nothing is changed.
    """
    problems: list[Problem] = []
    new: dict[str, Any] = {}
    resets: set[str] = set()
    for name, value in update.values.items():
        knob, path = _find_knob(manifest, name), join_path(["knobs", name])
        if knob is None and value is None and name in stored:
            resets.add(name)
        elif knob is None:
            problems.append(_unknown_knob(manifest, name, path))
        elif value is None and not _accepts_null(knob):
            resets.add(name)
        elif knob_problems := _knob_problems(knob, value, path):
            problems += knob_problems
        else:
            new[name] = value
    for index, name in enumerate(update.reset):
        if name in update.values:
            problems.append(Problem(f"reset[{index}]", "is given a value as well", "do one of the two", "knob_twice"))
        elif _find_knob(manifest, name) is None and name not in stored:
            problems.append(_unknown_knob(manifest, name, f"reset[{index}]"))
        else:
            resets.add(name)
    problems += _field_conflicts(manifest, new)
    # A field has one value: a knob that writes it replaces all others that did.
    written = {config_field(knob) for knob in manifest.knobs if knob.name in new or knob.name in resets}
    replaced = resets | {knob.name for knob in manifest.knobs if config_field(knob) in written}
    remaining = {name: value for name, value in stored.items() if name not in replaced}
    problems += _schema_problems(manifest, {**fit_knob_values(manifest, remaining).values, **new}, update, problems)
    if problems:
        raise Invalid(f"invalid values for the knobs of {manifest.name}", problems, code="knobs.invalid")
    return dict(sorted({**remaining, **new}.items()))


def _find_knob(manifest: Manifest, name: str) -> Knob | None:
    return next((knob for knob in manifest.knobs if knob.name == name), None)


def _accepts_null(knob: Knob) -> bool:
    return knob.options.get("default") is not None and not _knob_problems(knob, None, "")


def _knob_problems(knob: Knob, value: Any, path: str) -> list[Problem]:
    """The problems of a value for one knob."""
    if isinstance(value, str) and len(value) > MAX_KNOB_TEXT_CHARS:
        return [Problem(path, f"is longer than {MAX_KNOB_TEXT_CHARS} characters", "make it shorter", "too_long")]
    # Trusted: built from options that were validated, and from a pattern that was checked as untrusted.
    problems = compile_trusted(dict(value_schema(knob))).errors(value)
    return [replace(problem, path=path + problem.path) for problem in problems]


def _schema_rejections(manifest: Manifest, values: Mapping[str, Any]) -> list[tuple[str, Problem]]:
    """The problems that the plugin's schema finds in these values together, each with its knob, if it has one."""
    problems = project_config_problems(manifest.config_schema, config_fields(manifest, values))
    return [(_knob_for_path(manifest, values, problem.path), problem) for problem in problems]


def _knob_for_path(manifest: Manifest, values: Mapping[str, Any], path: str) -> str:
    """The knob that writes the field at a path; one that has a value where there are several."""
    for knob in sorted(manifest.knobs, key=lambda knob: knob.name not in values):
        field = join_path(["project", config_field(knob)])
        if path == field or path.startswith((f"{field}.", f"{field}[")):
            return knob.name
    return ""


def _schema_problems(
    manifest: Manifest, values: Mapping[str, Any], update: KnobUpdate, existing: Iterable[Problem]
) -> list[Problem]:
    """The schema's problems with paths in the update, without those paths that have a problem already."""
    known_paths = {problem.path for problem in existing}
    problems: list[Problem] = []
    for name, problem in _schema_rejections(manifest, values):
        path = join_path(["knobs", name]) if name in update.values else f"config{problem.path.removeprefix('project')}"
        if path not in known_paths:
            problems.append(replace(problem, path=path))
    return problems


def _field_conflicts(manifest: Manifest, new: Mapping[str, Any]) -> list[Problem]:
    first: dict[str, str] = {}
    problems: list[Problem] = []
    for knob in manifest.knobs:
        if knob.name in new:
            other = first.setdefault(config_field(knob), knob.name)
            if new[other] != new[knob.name]:
                message = f"{other} writes the same field, and something else"
                problems.append(Problem(join_path(["knobs", knob.name]), message, "turn one of them", "knob_clash"))
    return problems


def _unknown_knob(manifest: Manifest, name: str, path: str) -> Problem:
    names = [knob.name for knob in manifest.knobs]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}" if names else "it has no knobs"
    return Problem(path, "there is no such knob", printable(hint, 400), "knob_unknown")


def _problems_text(problems: Iterable[Problem]) -> str:
    return "; ".join(problem.message for problem in problems)
