"""Knobs: settings that a person changes in the console, each bound to one field of the project-side config."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, assert_never, cast

from paddock.core.schema.compile import check_schema, compile_trusted, join_path
from paddock.manifest.model import JsonObject, Knob, KnobType
from paddock.manifest.syntax.fields import Fields, ProblemReport

_KNOB_NAME = re.compile(r"[a-z][a-z0-9_]*")
_BINDING = re.compile(r"config\.([A-Za-z_][A-Za-z0-9_-]*)")

# type -> (required options, optional options, JSON types that the bound field may have)
KNOB_TYPES: dict[KnobType, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "range": (("min", "max", "step", "default"), (), ("number",)),
    "int_range": (("min", "max", "step", "default"), (), ("integer", "number")),
    "enum": (("values", "default"), ("labels",), ("string",)),
    "boolean": (("default",), (), ("boolean",)),
    "text": (("default",), ("max_length", "pattern"), ("string",)),
    "multiline": (("default",), ("max_length",), ("string",)),
    "model_alias": (("default",), ("filter",), ("string",)),
    "path": (("default", "prefixes"), ("must_exist",), ("string",)),
}
_COMMON_FIELDS = ("type", "label", "description", "binds_to")


def read_knobs(
    report: ProblemReport, fields: Fields, project: JsonObject | None, system: JsonObject | None
) -> tuple[Knob, ...]:
    """Read the knobs of a manifest, and check that they fit the config schema."""
    knobs: list[Knob] = []
    for name, knob in fields.named("knobs"):
        kind = cast("KnobType", knob.text("type"))  # the schema of manifests reports others
        if not _KNOB_NAME.fullmatch(name) or len(name) > 64:
            report.error(
                knob.path, f"{name[:80]!r} is not a knob name", "use lowercase letters, digits and '_'", "knob_name"
            )
        if kind in KNOB_TYPES:
            _check_options(report, knob, kind)
            _check_binding(report, knob, kind, project, system)
        options = {key: value for key, value in knob.value.items() if key not in _COMMON_FIELDS}
        knobs.append(Knob(name, kind, knob.text("label"), knob.text("binds_to"), knob.text("description"), options))
    return tuple(knobs)


def value_schema(knob: Knob) -> JsonObject:
    """Return the JSON Schema of the values that a knob accepts."""
    options = knob.options
    match knob.type:
        case "range" | "int_range":
            kind = "number" if knob.type == "range" else "integer"
            return {"type": kind, "minimum": options.get("min"), "maximum": options.get("max")}
        case "enum":
            return {"enum": list(options.get("values", []))}
        case "boolean":
            return {"type": "boolean"}
        case "path":
            prefixes = "|".join(re.escape(prefix) for prefix in options.get("prefixes", []))
            parent_segment = {"pattern": r"(^|/)\.\.(/|$)"}
            return {"type": "string", "pattern": f"^({prefixes})/", "not": parent_segment}
        case "model_alias":
            return {"type": ["string", "null"]}
        case "text" | "multiline":
            schema: dict[str, Any] = {"type": "string"}
            if "max_length" in options:
                schema["maxLength"] = options["max_length"]
            if "pattern" in options:
                schema["pattern"] = options["pattern"]
            return schema
        case _:
            assert_never(knob.type)


def accepted_values_text(kind: KnobType, options: JsonObject) -> str:
    """Describe the values that a knob accepts in a few words."""
    match kind:
        case "range" | "int_range":
            return f"{options['min']} to {options['max']}"
        case "enum":
            return ", ".join(options["values"])
        case "boolean":
            return "true or false"
        case "path":
            return "a path below " + " or ".join(f"{prefix}/" for prefix in options["prefixes"])
        case "model_alias":
            return "the name of a model"
        case "text" | "multiline":
            return f"up to {options['max_length']:,} characters" if "max_length" in options else "text"
        case _:
            assert_never(kind)


def _check_options(report: ProblemReport, knob: Fields, kind: KnobType) -> None:
    required, allowed, _ = KNOB_TYPES[kind]
    for key in required:
        if key not in knob:
            report.error(knob.at(key), f"a knob of type {kind} needs {key!r}", f"add '{key}:'", "knob_option")
    for key in knob.value:
        if key not in (*_COMMON_FIELDS, *required, *allowed):
            report.error(knob.at(key), f"a knob of type {kind} has no {key!r}", "remove it", "knob_option")
    low, high, step = knob.get("min"), knob.get("max"), knob.get("step")
    if _is_number(low) and _is_number(high):
        if low >= high:
            report.error(knob.at("min"), "is not below max", "swap them", "knob_bounds")
        elif _is_number(step) and step > high - low:
            report.error(knob.at("step"), "is larger than the whole range", "choose a smaller step", "knob_bounds")
    if kind == "int_range":
        for key in ("min", "max", "step", "default"):
            if key in knob and not _is_integer(knob.get(key)):
                report.error(
                    knob.at(key),
                    "must be a whole number in an int_range",
                    "write it without a decimal point",
                    "knob_bounds",
                )
    if "pattern" in knob:
        problems = check_schema({"type": "string", "pattern": knob.get("pattern")}, join_path(knob.path))
        report.add(problems)
        if problems:
            return
    values = {value for value in knob.items("values") if isinstance(value, str)}
    for label in knob.within("labels").value if "values" in knob else ():
        if label not in values:
            report.error(
                knob.at("labels", label), f"there is no value {label!r} to label", "name one of values", "knob_labels"
            )
    _check_default(report, knob, kind)


def _check_default(report: ProblemReport, knob: Fields, kind: KnobType) -> None:
    required, _, _ = KNOB_TYPES[kind]
    if any(key not in knob for key in required):
        return
    options = {key: value for key, value in knob.value.items() if key not in _COMMON_FIELDS}
    if not all(_OPTION_CHECKS[key](value) for key, value in options.items() if key in _OPTION_CHECKS):
        return  # the schema reports what is wrong with them
    schema = value_schema(Knob("", kind, "", "", options=options))
    # Trusted: built from well-formed options and from a pattern that was checked as untrusted.
    if not compile_trusted(dict(schema)).is_valid(knob.get("default")):
        report.error(
            knob.at("default"),
            f"is not a value this {kind} knob accepts",
            "choose a default inside its own bounds",
            "knob_default",
        )


def _check_binding(
    report: ProblemReport, knob: Fields, kind: KnobType, project: JsonObject | None, system: JsonObject | None
) -> None:
    path = knob.at("binds_to")
    target = knob.text("binds_to")
    if not target:
        return  # the schema reports that it is missing
    match = _BINDING.fullmatch(target)
    properties = Fields(project).within("properties").value
    system_properties = Fields(system).within("properties").value
    if target.startswith(("system_config.", "system.")) or (match and match[1] in system_properties):
        report.error(
            path,
            f"{target!r} is a system-side field, and a knob would write a secret into the project",
            "bind to a field of config_schema",
            "knob_binds_to_system_config",
        )
        return
    if not match:
        report.error(path, f"{target[:80]!r} is not a binding", "write 'config.<field>'", "knob_binding")
        return
    if match[1] not in properties:
        report.error(
            path,
            f"config_schema has no field {match[1]!r}",
            f"add it there, or bind to one of {', '.join(sorted(properties)) or '(none)'}",
            "knob_binding",
        )
        return
    _check_field_agreement(report, knob, kind, Fields(properties[match[1]]))


def _check_field_agreement(report: ProblemReport, knob: Fields, kind: KnobType, field: Fields) -> None:
    """Warn about a knob that disagrees with its field: every write is checked against both."""
    declared = field.get("type")
    types = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    accepted = KNOB_TYPES[kind][2]
    if declared is not None and not any(one in accepted for one in types):
        report.warn(
            knob.at("type"),
            f"a knob of type {kind} writes to a field of type {declared}",
            f"make the field {accepted[0]}",
            "knob_type_mismatch",
        )
    if kind == "enum":
        allowed = field.items("enum")
        if not allowed:
            report.warn(
                knob.at("values"),
                "the bound field does not list the same values",
                "add them as an enum in config_schema",
                "knob_type_mismatch",
            )
        elif set(map(str, allowed)) != set(map(str, knob.items("values"))):
            report.warn(
                knob.at("values"), "differ from the bound field's enum", "make them the same", "knob_type_mismatch"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


_OPTION_CHECKS: dict[str, Callable[[Any], bool]] = {
    "min": _is_number,
    "max": _is_number,
    "values": _is_text_list,
    "prefixes": _is_text_list,
    "max_length": lambda value: _is_integer(value) and value > 0,
    "pattern": lambda value: isinstance(value, str),
}
