"""Merges a plugin's configuration: the project's values and this machine's system values.

A field belongs to one side, and the schema that declares it says which. The plugin gets the union and never sees
the split.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from paddock.config.local_file import RESERVED_FIELDS
from paddock.core.errors import Invalid, Problem
from paddock.core.schema.compile import compile_schema, join_path
from paddock.core.secret import Secret

Schema = Mapping[str, Any]

# Problems that name fields and types only. Any other may quote the value, and on the system side that is a secret.
_VALUE_FREE_KEYWORDS = frozenset({"required", "type", "additionalProperties"})
_REDACTED_PROBLEM = Problem("", "the value does not fit what the plugin declares for this field")


def merge_config(
    config_schema: Schema | None,
    system_config_schema: Schema | None,
    project_values: Mapping[str, Any],
    system_values: Mapping[str, Any],
) -> dict[str, Any]:
    """Merge both sides into one configuration, with the schemas' top-level defaults filled in.

    The result shares nothing with the arguments. Each `Secret` among the system values is revealed in it,
    because the plugin needs it so: pass it to the plugin and nowhere else.

    Raises:
        Invalid: Every mistake of both sides, as `project.<field>` and `system.<field>`. Problems of the system side
            never repeat a value.
    """
    project_fields, system_fields = _declared_fields(config_schema), _declared_fields(system_config_schema)
    problems = _collisions(project_fields, system_fields)
    problems += _misplaced_values("project", project_values, config_schema, system_fields, "system_config_schema")
    problems += _misplaced_values("system", system_values, system_config_schema, project_fields, "config_schema")
    problems += [
        Problem(join_path(["system", key]), "the project gives a field of this name too", code="config.collision")
        for key in system_values
        if key in project_values and key not in project_fields and key not in system_fields
    ]
    project = _with_defaults(project_fields, project_values)
    system = _with_defaults(system_fields, _reveal_secrets(system_values))
    misplaced = {problem.path for problem in problems}
    problems += [
        found_problem
        for found_problem in (
            *_schema_problems("project", "config_schema", config_schema, project),
            *_schema_problems("system", "system_config_schema", system_config_schema, system),
        )
        if found_problem.path not in misplaced
    ]
    if problems:
        raise Invalid(
            "the plugin's configuration does not fit what it declares", problems, code="config.plugin_invalid"
        )
    return project | system


def project_config_problems(config_schema: Schema | None, values: Mapping[str, Any]) -> list[Problem]:
    """The problems of the project's values, with defaults filled in; paths as in `merge_config`."""
    filled = _with_defaults(_declared_fields(config_schema), values)
    return _schema_problems("project", "config_schema", config_schema, filled)


def _declared_fields(schema: Schema | None) -> Mapping[str, Any]:
    properties = (schema or {}).get("properties", {})
    return cast("Mapping[str, Any]", properties) if isinstance(properties, Mapping) else {}


def _collisions(project_fields: Mapping[str, Any], system_fields: Mapping[str, Any]) -> list[Problem]:
    """Fields that are declared on both sides, or that Paddock reserves."""
    shared = [
        Problem(
            join_path(["system", key]),
            "declared on both sides",
            "a field is a project's or this machine's, never both",
            "config.collision",
        )
        for key in system_fields
        if key in project_fields
    ]
    ours = [
        Problem(join_path(["system", key]), "Paddock keeps its own note under this name", code="config.reserved")
        for key in system_fields
        if key in RESERVED_FIELDS
    ]
    return shared + ours


def _misplaced_values(
    side: str, values: Mapping[str, Any], schema: Schema | None, other_fields: Mapping[str, Any], other_schema: str
) -> list[Problem]:
    """Values given on a side that does not own them."""
    own_fields = _declared_fields(schema)
    problems: list[Problem] = []
    for key in values:
        path = join_path([side, key])
        if key in other_fields and key not in own_fields:
            right_side = "local.toml" if side == "project" else "the project"
            hint = f"{other_schema} declares it, so it is set in {right_side}"
            problems.append(Problem(path, f"the {side} side may not set this", hint, "config.wrong_side"))
        elif schema is None:
            problems.append(Problem(path, f"the plugin declares no {side} configuration", code="config.undeclared"))
    return problems


def _with_defaults(fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    filled = copy.deepcopy(dict(values))
    for key, field_schema in fields.items():
        if key not in filled and isinstance(field_schema, Mapping) and "default" in field_schema:
            filled[key] = copy.deepcopy(cast("Mapping[str, Any]", field_schema)["default"])
    return filled


def _reveal_secrets(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: _reveal_secrets(part) for key, part in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_reveal_secrets(part) for part in cast("list[Any]", value)]
    return value


def _schema_problems(side: str, schema_name: str, schema: Schema | None, values: dict[str, Any]) -> list[Problem]:
    if schema is None:
        return []
    problems: list[Problem] = []
    for problem in compile_schema(dict(schema), schema_name).errors(values):
        path = problem.path if problem.path.startswith("[") else f".{problem.path}" if problem.path else ""
        shown = problem if side == "project" or problem.code in _VALUE_FREE_KEYWORDS else _REDACTED_PROBLEM
        problems.append(replace(shown, path=f"{side}{path}", code=problem.code))
    return problems
