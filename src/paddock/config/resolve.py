"""Resolves each setting to a value and its origin.

Flag over environment over project over local over default; in the local layer `local.toml` wins over `config.toml`.
Every mistake of every source is reported at once, also in a value that another one overrides.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct

from paddock.config.setting_spec import SettingSpec, Tightening
from paddock.config.settings import SETTINGS, Settings, settings_from
from paddock.config.toml_file import TomlFile, key_lines
from paddock.config.value_parser import InvalidSettingValue, format_setting, parse_setting
from paddock.config.variables import has_reference, substitute
from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable

_BY_VARIABLE = {name: row for row in SETTINGS.values() for name in (row.environment, *row.variables)}
_BY_PARAMETER = {name: row for row in SETTINGS.values() for name in row.parameters}
_MAX_PROBLEMS = 50
_GROUPS = frozenset(name.partition(".")[0] for name in SETTINGS)
# Names worth suggesting: setting a reserved one is an error.
_USABLE = {name: row for name, row in SETTINGS.items() if not row.reserved}
_MAX_PROJECT_WARNINGS = 5
# Ours, and not settings: they are read before any setting.
_OTHER_VARIABLES = frozenset({"PADDOCK_HOME", "PADDOCK_DEBUG"})


class SettingLayer(StrEnum):
    """The layers, strongest first."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    PROJECT = "project"
    LOCAL = "local"
    DEFAULT = "default"


class SettingOrigin(Struct, frozen=True):
    """Where a value came from."""

    layer: SettingLayer
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if not self.source:
            return self.layer.value
        if self.layer in (SettingLayer.PROJECT, SettingLayer.LOCAL):
            return self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{self.layer.value} {self.source}"


class LoadedSettings(Struct, frozen=True):
    """The settings and their origins; warnings are worth showing and stop nothing."""

    settings: Settings
    origins: Mapping[str, SettingOrigin]
    warnings: tuple[Problem, ...]

    def rows(self) -> list[tuple[str, str, SettingOrigin]]:
        """Name, value safe to show, and origin of every setting that is not reserved, in the table's order."""
        return [
            (name, format_setting(row, setting_value(self.settings, name)), self.origins[name])
            for name, row in _USABLE.items()
        ]


class SettingSources(Struct, frozen=True):
    """Everything that may set a setting. `local` comes strongest first."""

    flags: Mapping[str, object]
    environ: Mapping[str, str]
    project: TomlFile | None
    local: tuple[TomlFile, ...]


class _RawValue(Struct, frozen=True):
    """One value as written: its location for messages, and whether text may stand for a number."""

    row: SettingSpec
    key: str
    value: object
    origin: SettingOrigin
    where: str
    from_text: bool


AcceptedValues = dict[str, tuple[Any, SettingOrigin]]


def resolve_settings(sources: SettingSources) -> LoadedSettings:
    """Resolve every setting.

    A project's file with a mistake is ignored as a whole, with a warning: a repository that someone else wrote must
    not be able to stop our commands.

    Raises:
        Invalid: With every mistake in every other source.
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    resolved: AcceptedValues = {
        name: (row.default, SettingOrigin(SettingLayer.DEFAULT)) for name, row in SETTINGS.items()
    }
    for file in reversed(sources.local):
        resolved |= _accept_values(_from_file(file, SettingLayer.LOCAL, sources.environ, problems), problems)
    if sources.project is not None:
        mistakes: list[Problem] = []
        project_values = _accept_values(_from_file(sources.project, SettingLayer.PROJECT, None, mistakes), mistakes)
        allowed = _accept_tightening(project_values, resolved, mistakes)
        if mistakes:
            warnings += project_warnings(sources.project.printable_path, mistakes)
        else:
            resolved |= allowed
    resolved |= _accept_values(_from_environment(sources.environ, warnings), problems)
    resolved |= _accept_values(_from_flags(sources.flags, problems), problems)
    if problems:
        raise Invalid(
            f"the settings have {len(problems)} mistake{'s' if len(problems) > 1 else ''}",
            problems,
            code="config.invalid",
        )
    return LoadedSettings(
        settings=settings_from({name: value for name, (value, _) in resolved.items()}),
        origins=MappingProxyType({name: origin for name, (_, origin) in resolved.items()}),
        warnings=tuple(warnings),
    )


def project_warnings(path: str, mistakes: Sequence[Problem]) -> list[Problem]:
    """The warnings about a project's invalid file; a few of its mistakes stand for all."""
    count = f"{len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}"
    first = Problem(path, f"this project's settings are ignored, for they have {count}", "", "config.project_ignored")
    return [first, *mistakes[:_MAX_PROJECT_WARNINGS]]


def setting_value(settings: Settings, name: str) -> Any:
    """The value of a setting by its dotted name."""
    group, _, key = name.partition(".")
    return getattr(getattr(settings, group), key)


def _accept_values(raw_values: Iterable[_RawValue], problems: list[Problem]) -> AcceptedValues:
    """Parse the values of one source; a setting written twice under two names must have the same value."""
    accepted: AcceptedValues = {}
    first: dict[str, _RawValue] = {}
    for raw in raw_values:
        try:
            value = parse_setting(raw.row, raw.value, from_text=raw.from_text)
        except InvalidSettingValue as error:
            problems.append(Problem(raw.where, str(error), error.hint, error.code, raw.origin.line))
            continue
        earlier = first.setdefault(raw.row.name, raw)
        if earlier is not raw and accepted[raw.row.name][0] != value:
            problems.append(
                Problem(
                    raw.where,
                    f"{raw.key} and {earlier.key} are both set, and differently",
                    f"keep one of them; both mean {raw.row.name}",
                    "config.conflict",
                    raw.origin.line,
                )
            )
            continue
        if earlier is raw:
            accepted[raw.row.name] = (value, raw.origin)
    return accepted


def _accept_tightening(project: AcceptedValues, resolved: AcceptedValues, problems: list[Problem]) -> AcceptedValues:
    """Accept a project's values only where they tighten: a repository someone else wrote must not loosen anything."""
    allowed: AcceptedValues = {}
    for name, (value, origin) in project.items():
        row, own = SETTINGS[name], resolved[name][0]
        location = f"{origin.source}: {name}"
        if row.tighter is Tightening.NEVER:
            message, hint = "a project may not set this", "set it in config.toml, local.toml or the environment"
        elif own is not None and (value > own if row.tighter is Tightening.LOWER else value < own):
            message = f"a project may only make this {row.tighter.value} than your own {format_setting(row, own)}"
            hint = f"{row.environment}={format_setting(row, value)} if you want it"
        else:
            allowed[name] = (value, origin)
            continue
        problems.append(Problem(location, message, hint, "config.project_forbidden", origin.line))
    return allowed


def _from_flags(flags: Mapping[str, object], problems: list[Problem]) -> Iterator[_RawValue]:
    for key, value in flags.items():
        row = SETTINGS.get(key) or _BY_PARAMETER.get(key)
        if row is None:
            problems.append(_unknown_setting(f"flag {printable(key)}", key, None))
        else:
            yield _RawValue(row, key, value, SettingOrigin(SettingLayer.FLAG, key), f"flag {key}", from_text=True)


def _from_environment(environ: Mapping[str, str], warnings: list[Problem]) -> Iterator[_RawValue]:
    for name in sorted(environ):
        if not name.startswith(("PADDOCK_", "OSQR_PLUGINS_")) or name in _OTHER_VARIABLES:
            continue
        row = _BY_VARIABLE.get(name)
        if row is None:
            # Only a warning: other programs may use the prefix too.
            usable = [known for known, spec in _BY_VARIABLE.items() if not spec.reserved]
            if close := difflib.get_close_matches(name, usable, n=1, cutoff=0.8):
                hint = f"did you mean {close[0]}?"
                warnings.append(Problem(printable(name), "there is no setting of this name", hint, "config.unknown"))
        elif environ[name]:
            yield _RawValue(
                row, name, environ[name], SettingOrigin(SettingLayer.ENVIRONMENT, name), name, from_text=True
            )


def _from_file(
    file: TomlFile, layer: SettingLayer, environ: Mapping[str, str] | None, problems: list[Problem]
) -> Iterator[_RawValue]:
    """The values in a file. Only our own files take `${VAR}` (`environ` given): a project must not read variables."""
    lines = key_lines(file.text)
    for path, value in _leaves(file.values, ()):
        if len(problems) >= _MAX_PROBLEMS:
            break  # after these fifty are fixed, the next fifty are reported
        key = printable(".".join(path))
        where, line = f"{file.printable_path}: {key}", lines.get(path)
        row = SETTINGS.get(".".join(path)) or (_BY_PARAMETER.get(path[0]) if len(path) == 1 else None)
        if row is None:
            if not _is_plugin_entry(path, value):
                problems.append(_unknown_setting(where, ".".join(path), line))
            elif file.path.name != "local.toml":
                hint = "move it to local.toml, which only you can read"
                problems.append(
                    Problem(where, "what a plugin needs stands in local.toml", hint, "config.misplaced", line)
                )
            continue
        from_text = False
        if environ is not None and isinstance(value, str):
            from_text = has_reference(value)
            count = len(problems)
            value = substitute(value, environ, where, problems, line)
            if len(problems) > count:
                continue
        yield _RawValue(row, key, value, SettingOrigin(layer, file.printable_path, line), where, from_text)


def _leaves(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key that could be a setting; an unknown table counts as one key, and so does a plugin's entry."""
    for key, value in table.items():
        key_path = (*path, key)
        if isinstance(value, dict) and not path and key in _GROUPS:
            yield from _leaves(cast("dict[str, Any]", value), key_path)
        else:
            yield key_path, value


def _is_plugin_entry(path: tuple[str, ...], value: object) -> bool:
    return len(path) == 2 and path[0] == "plugins" and isinstance(value, dict)


def _unknown_setting(where: str, key: str, line: int | None) -> Problem:
    parameters = [name for name, row in _BY_PARAMETER.items() if not row.reserved]
    close = difflib.get_close_matches(key, [*_USABLE, *parameters], n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else _known_names(key.partition(".")[0])
    return Problem(where, "there is no setting of this name", hint, "config.unknown", line)


def _known_names(group: str) -> str:
    """The names that could have been meant."""
    in_group = [name.partition(".")[2] for name in _USABLE if name.startswith(f"{group}.")]
    if in_group:
        return f"known in [{group}]: {', '.join(in_group)}"
    return f"the tables are: {', '.join(sorted({name.partition('.')[0] for name in _USABLE}))}"
