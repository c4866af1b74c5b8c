"""Rules for manifest fields that several dialects have, each reporting under the path of its own document."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from paddock.core.errors import PaddockError
from paddock.core.schema.compile import check_schema, join_path
from paddock.core.schema.traversal import subschemas
from paddock.core.semver import Constraint, Version
from paddock.manifest import capability as capabilities
from paddock.manifest.capability import Capability, InvalidCapability
from paddock.manifest.effects import Effect, effect_words, parse_effect
from paddock.manifest.model import JsonObject, Schema, SchemaFile, ToolRequirement
from paddock.manifest.names import (
    BUILT_IN_NAMESPACES,
    is_mcp_tool_name,
    kaged_name_problem,
    method_name_problem,
    plugin_name_problem,
)
from paddock.manifest.secret_use import SecretRecipient, parse_recipient
from paddock.manifest.syntax.document import ValuePath
from paddock.manifest.syntax.fields import MAX_ENTRIES, MAX_PROBLEMS, Fields, ProblemReport

# Parameters that would ask the caller for credentials, which the host resolves itself.
AUTH_FIELDS = frozenset(
    {"auth_mode", "user_email", "impersonate_email", "access_token", "refresh_token", "service_account_json"}
)
_BIDI_CHARACTERS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PROTECTED_ENV = re.compile(r"(KAGED|PADDOCK)_(PLUGIN_NAME|PLUGIN_DIR|API_VERSION)")
_MAX_SUGGESTIONS = 20
_MAX_SUGGESTION_CHARS = 80
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_plugin_name(report: ProblemReport, path: ValuePath, name: str, *, strict: bool = False) -> None:
    """Check the plugin's name, by kaged's rule if `strict`."""
    if not name:
        return  # the schema reports that it is missing
    problem = (kaged_name_problem if strict else plugin_name_problem)(name)
    if problem:
        report.error(path, *problem, code="name")
    elif name in BUILT_IN_NAMESPACES:
        report.warn(
            path,
            f"{name!r} is also the name of built-in tools",
            "choose another name to avoid confusion",
            "name_shadows_built_in",
        )


def check_entry_count(report: ProblemReport, fields: Fields) -> None:
    """Refuse a list or mapping with more entries than are read, so that none goes unseen.

    Embedded schemas have their own limits.
    """
    pending: list[tuple[ValuePath, Any]] = [(fields.path, fields.value)]
    while pending:
        path, value = pending.pop()
        entries: Iterable[tuple[str | int, Any]]
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
        elif isinstance(value, list):
            entries = enumerate(cast("list[Any]", value))
        else:
            continue
        if len(cast("dict[str, Any] | list[Any]", value)) > MAX_ENTRIES:
            hint = "split the plugin, or list less"
            report.error(path, f"has more than {MAX_ENTRIES:,} entries", hint, "too_many_entries")
        pending.extend(
            ((*path, key), value)
            for key, value in islice(entries, MAX_ENTRIES)
            if not str(key).lower().endswith(("schema", "schemas"))
        )


def check_slug(report: ProblemReport, path: ValuePath, title: str, name: str) -> None:
    """Check that a display name yields a usable plugin id."""
    if title and not name:
        report.error(path, f"{title[:80]!r} gives no usable id", "use at least one ASCII letter or digit", "name")


def read_display_text(report: ProblemReport, fields: Fields, key: str) -> str:
    """Read a short text shown on screens, such as a title or author, and refuse control characters."""
    text = fields.text(key)
    check_display_text(report, fields.at(key), text)
    return text


def check_display_text(report: ProblemReport, path: ValuePath, text: str) -> None:
    """Refuse line breaks, escape sequences and characters that change the reading direction."""
    control_character = next((character for character in text if _is_control_character(character)), None)
    if control_character is not None:
        label = unicodedata.name(control_character, "a control character").lower()
        report.error(
            path, f"has the character U+{ord(control_character):04X} ({label})", "remove it", "control_character"
        )


def _is_control_character(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDI_CHARACTERS


def check_version(report: ProblemReport, path: ValuePath, text: str) -> None:
    if not text:
        return  # the schema reports that it is missing
    try:
        Version.parse(text)
    except PaddockError:
        report.error(
            path,
            f"{text[:80]!r} is not a semantic version",
            "write three numbers, e.g. '1.0.0' or '1.0.0-beta.1'",
            "version",
        )


def read_recipients(report: ProblemReport, fields: Fields, key: str) -> tuple[SecretRecipient, ...]:
    """Read a list of recipients: hosts with ports as after `net:`, or headers at such hosts."""
    recipients: list[SecretRecipient] = []
    for index, text in fields.numbered_texts(key):
        try:
            recipients.append(parse_recipient(text))
        except InvalidCapability as error:
            report.error(fields.at(key, index), error.message, error.hint, "capability")
    return tuple(recipients)


def read_capabilities(report: ProblemReport, fields: Fields, key: str) -> tuple[Capability, ...]:
    """Read a list of capabilities; each bad entry is reported under its own index."""
    unique: dict[Capability, None] = {}  # an ordered set
    for index, item in enumerate(fields.items(key)):
        path = fields.at(key, index)
        if not isinstance(item, str | dict):
            continue  # the schema reports it
        try:
            parsed = [capabilities.parse_capability(text) for text in capabilities.normalise_entry(item)]
        except InvalidCapability as error:
            report.error(path, error.message, error.hint, "capability")
            continue
        for capability in parsed:
            if isinstance(capability, capabilities.SecretUse):
                report.error(
                    path,
                    f"'{capability}' is a secret",
                    "name it under 'secrets', and ask for host:secrets",
                    "capability",
                )
            elif capability in unique:
                report.warn(path, f"'{capability}' is listed twice", "remove one", "capability_twice")
            else:
                unique[capability] = None
                if capabilities.is_dangerous(capability):
                    report.warn(
                        path,
                        f"'{capability}' reaches very far: {capabilities.describe_capability(capability)}",
                        "ask for less if you can; one secret can be a setting that its user fills in",
                        "capability_broad",
                    )
    networks = [capability for capability in unique if isinstance(capability, capabilities.NetworkAccess)]
    if networks and capabilities.NoNetwork() in unique:
        report.error(
            fields.at(key),
            f"'net:[]' says no network, and '{networks[0]}' asks for it",
            "keep one of them",
            "capability_contradiction",
        )
    return tuple(unique)


def read_effects(report: ProblemReport, fields: Fields, key: str = "effects") -> tuple[Effect, ...] | None:
    """Read the declared effects; None where the document declares none."""
    if key not in fields:
        return None
    effects: list[Effect] = []
    for index, text in fields.numbered_texts(key):
        effect = parse_effect(text)
        if effect is None:
            import difflib

            known_names = effect_words()
            suggest = len(report.errors) < _MAX_SUGGESTIONS
            close = difflib.get_close_matches(text[:_MAX_SUGGESTION_CHARS].lower(), known_names, n=1) if suggest else []
            report.error(
                fields.at(key, index),
                f"{text[:80]!r} is not a known effect",
                (f"did you mean {close[0]!r}? " if close else "") + f"use {', '.join(known_names)}",
                "effect",
            )
        elif effect not in effects:
            effects.append(effect)
    if Effect.READ_ONLY in effects and len(effects) > 1:
        report.error(
            fields.at(key),
            "'read_only' stands beside an effect that changes something",
            "keep one of them",
            "effect_contradiction",
        )
    return tuple(effects)


def read_schema(report: ProblemReport, fields: Fields, key: str, *, files: bool = False) -> Schema | None:
    """Read and check an embedded JSON Schema; with `files`, also the path of one in the package."""
    value = fields.get(key)
    path = fields.at(key)
    if value is None:
        return None
    if isinstance(value, bool):
        return {} if value else {"not": {}}
    if isinstance(value, str):
        if not files:
            return None
        if not is_package_path(value):
            report.error(
                path,
                f"{value[:80]!r} is not a path inside the package",
                "write a relative path such as 'schemas/input.json'",
                "schema_path",
            )
            return None
        return SchemaFile(value)
    if not isinstance(value, dict):
        return None
    schema = cast("dict[str, Any]", value)
    report.add(check_schema(schema, join_path(path)))
    return schema


def check_built_schema(report: ProblemReport, path: ValuePath, schema: JsonObject | None) -> None:
    """Check a schema built from a document's fields against the limits for any schema."""
    for problem in check_schema(schema, "") if schema is not None else []:
        report.error(path, problem.message, problem.hint, problem.code)


def is_package_path(text: str) -> bool:
    """Whether it is a relative path that stays inside the package."""
    parts = text.split("/")
    return (
        bool(text)
        and text.isprintable()
        and not text.startswith("/")
        and "\\" not in text
        and ".." not in parts
        and len(text) <= 1024
    )


def check_no_auth_fields(report: ProblemReport, path: ValuePath, schema: Schema | None) -> None:
    """Refuse parameters for credentials: those are declared as identities and resolved by the host."""
    if schema is None or isinstance(schema, SchemaFile):
        return  # schema files are checked together with the package
    for location, message, hint in find_auth_fields(schema):
        report.error((*path, *location), message, hint, "auth_field")


def find_auth_fields(schema: object) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the parameters that ask for credentials: location, message, hint."""
    pending: list[tuple[ValuePath, object]] = [((), schema)]
    while pending:
        location, subschema = pending.pop()
        for name in Fields(subschema).within("properties").value:
            if name in AUTH_FIELDS:
                yield (
                    (*location, "properties", name),
                    f"the parameter {name!r} asks the caller for credentials",
                    "remove it and declare required_identities or op_auth; the host supplies the token",
                )
        pending += [((*location, *steps), inner) for steps, inner in subschemas(subschema)]


def read_config_schemas(report: ProblemReport, fields: Fields) -> tuple[JsonObject | None, JsonObject | None]:
    """Read the project-side and system-side schemas. No field may be in both: secrets would leak into projects."""
    project = fields.object("config_schema")
    system = fields.object("system_config_schema")
    for key, schema in (("config_schema", project), ("system_config_schema", system)):
        if schema is not None:
            report.add(check_schema(schema, join_path(fields.at(key))))
            if isinstance(schema.get("type", "object"), str | list) and schema.get("type", "object") != "object":
                report.error(
                    fields.at(key, "type"), "a configuration is an object", "write 'type: object'", "config_schema"
                )
    if project is not None and system is not None:
        for name in Fields(system).within("properties").value:
            if name in Fields(project).within("properties").value:
                report.error(
                    fields.at("system_config_schema", "properties", name),
                    f"the field {name!r} stands in config_schema too",
                    "keep secrets in system_config_schema only",
                    "config_not_disjoint",
                )
    return project, system


def check_methods(report: ProblemReport, paths: Iterable[tuple[ValuePath, str]]) -> None:
    """Check method or notification names: format, reserved namespaces, duplicates."""
    seen: set[str] = set()
    for path, name in paths:
        if not name:
            continue  # the schema reports that it is missing
        problem = method_name_problem(name)
        if problem:
            report.error(path, *problem, code="method_name")
        elif name in seen:
            report.error(path, f"{name!r} is declared twice", "keep one of them", "duplicate_name")
        seen.add(name)


def check_callable_name(report: ProblemReport, path: ValuePath, name: str) -> None:
    """Check the name of a callable from a foreign dialect."""
    if not is_mcp_tool_name(name):
        report.error(
            path, f"{name[:80]!r} is not a name", "use letters, digits, '_', '-', '.' or '/', at most 128", "name"
        )


def read_env(report: ProblemReport, fields: Fields, key: str = "env") -> dict[str, str]:
    """Read environment variables for the plugin; the ones that the host sets are refused."""
    env = fields.text_map(key)
    for name, value in env.items():
        if _PROTECTED_ENV.fullmatch(name):
            report.error(
                fields.at(key, name),
                f"{name} is set by the host and cannot be overridden",
                "remove it",
                "env_protected",
            )
        elif not _ENV_NAME.fullmatch(name) or len(name) > 256:
            report.error(
                fields.at(key, name),
                "is not the name of an environment variable",
                "use letters, digits and '_'",
                "env_name",
            )
        elif "\0" in value:
            report.error(fields.at(key, name), "has a NUL in its value", "remove it", "env_value")
    return env


def check_roles(report: ProblemReport, fields: Fields, roles: Sequence[str], hooks: Sequence[str]) -> None:
    """Check that a compactor subscribes to the compaction hook."""
    if "compactor" in roles and "pre_compact" not in hooks:
        report.error(
            fields.at("roles"),
            "a compactor must subscribe to the pre_compact hook",
            "add 'pre_compact' to hooks",
            "role_without_hook",
        )


def read_requirements(report: ProblemReport, fields: Fields, key: str) -> tuple[ToolRequirement, ...]:
    """Read required tools, written `Name@constraint`."""
    requirements: list[ToolRequirement] = []
    for index, text in fields.numbered_texts(key):
        name, _, constraint = text.partition("@")
        problem = plugin_name_problem(name)
        if problem:
            report.error(fields.at(key, index), f"the tool name {problem[0]}", "write 'Name@1.x'", "requirement")
            continue
        try:
            Constraint.parse(constraint or "*")
        except PaddockError as error:
            report.error(
                fields.at(key, index), f"{constraint[:80]!r} is not a version constraint", error.hint, "requirement"
            )
            continue
        requirements.append(ToolRequirement(name, constraint or "*"))
    return tuple(requirements)


def warn_unknown(report: ProblemReport, fields: Fields, known: Iterable[str]) -> None:
    """Warn about unknown fields. They are not refused: a dialect may grow elsewhere."""
    import difflib

    names = list(known)
    unknown = (key for key in fields.value if key not in names and not key.startswith(("_", "x-", "x_", "$")))
    for count, key in enumerate(islice(unknown, MAX_PROBLEMS)):
        # Suggestions cost more than all the rest, so only the first few short names get one.
        suggest = count < _MAX_SUGGESTIONS and len(key) <= _MAX_SUGGESTION_CHARS
        close = difflib.get_close_matches(key, names, n=1) if suggest else []
        report.warn(
            fields.at(key),
            f"the field {key[:80]!r} is not known and is ignored",
            f"did you mean {close[0]!r}?" if close else "",
            "unknown_field",
        )
