"""What people set knobs to: which of it fits a version of the plugin, and every mistake in what is new. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.config.plugin_config import project_config_problems
from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import compile_trusted, join_path
from paddock.manifest.model import Knob, Manifest
from paddock.manifest.rules.knobs import value_schema

MAX_KNOB_TEXT_CHARS = 65_536  # characters; all of a configuration goes to the plugin in one message


@dataclass(frozen=True, slots=True)
class KnobUpdate:
    """What somebody wants of a plugin's knobs: values for some, and the default again for others."""

    values: Mapping[str, Any]
    reset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RejectedKnobValue:
    """A value that somebody set and that this version of the plugin does not take. It is kept, and not used."""

    knob: str
    value: Any
    reason: str

    def to_value(self) -> dict[str, Any]:
        return {"knob": self.knob, "value": self.value, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class KnobFit:
    """What is kept of knobs, by what becomes of it: `values` are used, by knob."""

    values: Mapping[str, Any]
    left_out: tuple[RejectedKnobValue, ...] = ()


def config_field(knob: Knob) -> str:
    """The field of the configuration that a knob writes."""
    return knob.binds_to.removeprefix("config.")


def config_fields(manifest: Manifest, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of knobs as the fields that they are written to."""
    return {config_field(knob): values[knob.name] for knob in manifest.knobs if knob.name in values}


def fit_knob_values(manifest: Manifest, kept: Mapping[str, Any]) -> KnobFit:
    """What of these values the plugin can be given. One that an upgrade made impossible must not keep it from starting.

    Left out is as little as can be told: what the knob or the schema names, and all of it where it names nothing.
    """
    values: dict[str, Any] = {}
    left_out: list[RejectedKnobValue] = []
    writers: dict[str, str] = {}  # by field
    for name, value in kept.items():
        knob = _find_knob(manifest, name)
        if knob is None:
            left_out.append(RejectedKnobValue(name, value, "this version has no such knob"))
        elif found := _knob_problems(knob, value, ""):
            left_out.append(RejectedKnobValue(name, value, _problems_text(found)))
        elif (other := writers.setdefault(config_field(knob), name)) != name:
            left_out.append(RejectedKnobValue(name, value, f"{other} writes the same field now"))
        else:
            values[name] = value
    while values and (refused := _schema_rejections(manifest, values)):
        # What names none of them is said of all together.
        blamed = {name for name, _ in refused if name in values}
        for name in sorted(blamed or values):
            words = _problems_text(problem for about, problem in refused if about == name or not blamed)
            left_out.append(RejectedKnobValue(name, values.pop(name), words))
    return KnobFit(values, tuple(left_out))


def apply_knob_update(manifest: Manifest, kept: Mapping[str, Any], turn: KnobUpdate) -> dict[str, Any]:
    """What is kept of a plugin's knobs after a turn.

    Null puts a knob back to its default. Where another value than null is the default and null is one that the knob
    takes, as with a model of which there need not be any, it is that value.

    Raises:
        Invalid: every mistake, with its path in `knobs` or `reset`; nothing is turned.
    """
    problems: list[Problem] = []
    new: dict[str, Any] = {}
    back: set[str] = set()
    for name, value in turn.values.items():
        knob, at = _find_knob(manifest, name), join_path(["knobs", name])
        if knob is None and value is None and name in kept:
            back.add(name)
        elif knob is None:
            problems.append(_unknown(manifest, name, at))
        elif value is None and not _accepts_null(knob):
            back.add(name)
        elif found := _knob_problems(knob, value, at):
            problems += found
        else:
            new[name] = value
    for index, name in enumerate(turn.reset):
        if name in turn.values:
            problems.append(Problem(f"reset[{index}]", "is given a value as well", "do one of the two", "knob_twice"))
        elif _find_knob(manifest, name) is None and name not in kept:
            problems.append(_unknown(manifest, name, f"reset[{index}]"))
        else:
            back.add(name)
    problems += _clashes(manifest, new)
    # A field has one value: who writes it takes the place of all others that did.
    written = {config_field(knob) for knob in manifest.knobs if knob.name in new or knob.name in back}
    gone = back | {knob.name for knob in manifest.knobs if config_field(knob) in written}
    stays = {name: value for name, value in kept.items() if name not in gone}
    problems += _schema_problems(manifest, {**fit_knob_values(manifest, stays).values, **new}, turn, problems)
    if problems:
        raise Invalid(f"these are no values for the knobs of {manifest.name}", problems, code="knobs.invalid")
    return dict(sorted({**stays, **new}.items()))


def _find_knob(manifest: Manifest, name: str) -> Knob | None:
    return next((knob for knob in manifest.knobs if knob.name == name), None)


def _accepts_null(knob: Knob) -> bool:
    return knob.options.get("default") is not None and not _knob_problems(knob, None, "")


def _knob_problems(knob: Knob, value: Any, at: str) -> list[Problem]:
    """What a knob has against a value."""
    if isinstance(value, str) and len(value) > MAX_KNOB_TEXT_CHARS:
        return [Problem(at, f"is longer than {MAX_KNOB_TEXT_CHARS} characters", "make it shorter", "too_long")]
    # Ours: made of options that were found well formed, and of a pattern that was checked as a stranger's.
    found = compile_trusted(dict(value_schema(knob))).errors(value)
    return [Problem(at + one.path, one.message, one.hint, one.code) for one in found]


def _schema_rejections(manifest: Manifest, values: Mapping[str, Any]) -> list[tuple[str, Problem]]:
    """What the plugin's schema has against these values together, each with the knob that it is about, if it is one."""
    found = project_config_problems(manifest.config_schema, config_fields(manifest, values))
    return [(_knob_for_path(manifest, values, problem.path), problem) for problem in found]


def _knob_for_path(manifest: Manifest, values: Mapping[str, Any], path: str) -> str:
    """The knob that writes the field at a path; one that was turned where there are several."""
    for knob in sorted(manifest.knobs, key=lambda knob: knob.name not in values):
        field = join_path(["project", config_field(knob)])
        if path == field or path.startswith((f"{field}.", f"{field}[")):
            return knob.name
    return ""


def _schema_problems(
    manifest: Manifest, values: Mapping[str, Any], turn: KnobUpdate, known: Iterable[Problem]
) -> list[Problem]:
    """The same in the terms of whoever turned them, without those of which something is wrong already."""
    wrong = {problem.path for problem in known}
    problems: list[Problem] = []
    for name, problem in _schema_rejections(manifest, values):
        at = join_path(["knobs", name]) if name in turn.values else f"config{problem.path.removeprefix('project')}"
        if at not in wrong:
            problems.append(Problem(at, problem.message, problem.hint, problem.code))
    return problems


def _clashes(manifest: Manifest, new: Mapping[str, Any]) -> list[Problem]:
    first: dict[str, str] = {}
    problems: list[Problem] = []
    for knob in manifest.knobs:
        if knob.name in new:
            other = first.setdefault(config_field(knob), knob.name)
            if new[other] != new[knob.name]:
                words = f"{other} writes the same field, and something else"
                problems.append(Problem(join_path(["knobs", knob.name]), words, "turn one of them", "knob_clash"))
    return problems


def _unknown(manifest: Manifest, name: str, at: str) -> Problem:
    names = [knob.name for knob in manifest.knobs]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}" if names else "it has no knobs"
    return Problem(at, "there is no such knob", printable(hint, 400), "knob_unknown")


def _problems_text(problems: Iterable[Problem]) -> str:
    return "; ".join(problem.message for problem in problems)
