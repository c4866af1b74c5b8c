"""Shu's manifest: Python classes named by entrypoints, host services, identities and feed-safe operations."""

from __future__ import annotations

import ast
from typing import Any, cast

from paddock.core.errors import Invalid
from paddock.core.ids import PluginName
from paddock.core.schema import check_schema, join_path
from paddock.manifest import capability as capabilities
from paddock.manifest.capability import BadCapability, Capability, HostService
from paddock.manifest.effects import Effect
from paddock.manifest.model import (
    CallableSpec,
    Dialect,
    Feeds,
    Form,
    Identity,
    JsonObject,
    Manifest,
    OperationAuth,
    PythonRuntime,
)
from paddock.manifest.package_files import PackageFiles
from paddock.manifest.python_text import literal, parse_python_source
from paddock.manifest.report import Fields, Report
from paddock.manifest.rules import (
    check_callable_name,
    check_no_auth_fields,
    check_plugin_name,
    check_version,
    read_schema,
    shown_text,
)

SCHEMA = "shu"
MAX_SOURCES = 4 * 1024 * 1024  # characters of Python in one reading


def read(fields: Fields, report: Report, files: PackageFiles) -> Manifest:
    """Map a parsed Shu manifest onto the model, reporting every broken rule."""
    name = fields.text("name")
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    entrypoints = fields.text_map("entrypoints")
    for callable_name in entrypoints:
        check_callable_name(report, fields.at("entrypoints", callable_name), callable_name)
    default_op = fields.optional_text("default_feed_op")
    allowed_ops = fields.texts("allowed_feed_ops")
    if default_op is not None and allowed_ops and default_op not in allowed_ops:
        report.error(
            fields.at("default_feed_op"),
            f"{default_op!r} is not in allowed_feed_ops",
            "add it there, or choose one of them",
            "feed_op",
        )
    declared = read_schema(report, fields, "params_schema")
    check_no_auth_fields(report, fields.at("params_schema"), declared)
    answered = read_schema(report, fields, "output_schema")
    sources = _Sources(report, fields, files)
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.SHU,
        description=fields.text("description"),
        title=shown_text(report, fields, "display_name"),
        author=shown_text(report, fields, "author"),
        license=fields.text("license"),
        homepage=fields.text("homepage"),
        runtime=PythonRuntime(entrypoints),
        capabilities=_capabilities(report, fields),
        callables=tuple(
            CallableSpec(
                callable_name,
                Form.WHOLE,
                fields.text("description"),
                input_schema=sources.schema(callable_name, target) if declared is None else declared,
                output_schema=answered,
                effects=(Effect.READ_ONLY,),  # writing is what actions are for
            )
            for callable_name, target in entrypoints.items()
        ),
        policy_tags=fields.texts("policy_tags"),
        identities=tuple(read_identities(fields, "required_identities")),
        operation_auth=tuple(_operation_auth(fields)),
        secrets=_secrets(fields),
        feeds=Feeds(default_op, allowed_ops),
        origins=fields.texts("origins"),
    )


class _Sources:
    """The package's Python code, read and never run: each module at most once, and no more than so much of it."""

    def __init__(self, report: Report, fields: Fields, files: PackageFiles) -> None:
        self._report = report
        self._fields = fields
        self._files = files
        self._left = MAX_SOURCES
        self._classes: dict[str, tuple[str, dict[str, ast.ClassDef]]] = {}  # module -> its path, its classes
        self._schemas: dict[str, JsonObject | None] = {}  # target -> what its get_schema returns

    def schema(self, name: str, target: str) -> JsonObject | None:
        """The parameter schema that `get_schema` returns, where it is a literal."""
        if target not in self._schemas:
            self._schemas[target] = self._returned(name, target)
        return self._schemas[target]

    def _returned(self, name: str, target: str) -> JsonObject | None:
        module, _, class_name = target.partition(":")
        if module not in self._classes:
            self._classes[module] = self._parsed(name, module)
        where, classes = self._classes[module]
        found = classes.get(class_name)
        path = self._fields.at("entrypoints", name, "get_schema")
        for node in _method_returns(found, "get_schema") if found else ():
            try:
                value = literal(where, node)
            except Invalid:
                return None  # computed: known once the plugin runs
            if isinstance(value, dict):
                schema = cast("dict[str, Any]", value)
                self._report.add(check_schema(schema, join_path(path)))
                check_no_auth_fields(self._report, path, schema)
                return schema
        return None

    def _parsed(self, name: str, module: str) -> tuple[str, dict[str, ast.ClassDef]]:
        source = self._files.module_source(module) if self._left > 0 else None
        if source is None:
            return "", {}
        where, text = source
        self._left -= len(text)
        try:
            tree = parse_python_source(where, text)
        except Invalid as error:
            message = f"{where} {error.problems[0].message}"
            self._report.error(self._fields.at("entrypoints", name), message, "mend the file", "entrypoint")
            return where, {}
        classes: dict[str, ast.ClassDef] = {}
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                classes.setdefault(statement.name, statement)
        return where, classes


def _method_returns(found: ast.ClassDef, method: str) -> list[ast.expr]:
    for member in found.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name == method:
            return [step.value for step in member.body if isinstance(step, ast.Return) and step.value is not None]
    return []


def _capabilities(report: Report, fields: Fields) -> tuple[Capability, ...]:
    found: list[Capability] = []
    for index, text in fields.numbered_texts("capabilities"):
        try:
            found.append(capabilities.host_service(text))
        except BadCapability as error:
            report.error(fields.at("capabilities", index), error.message, error.hint, "capability")
    if HostService("kb") in found:
        found.append(HostService("cursor"))  # the seed: cursors come with the knowledge base
    return tuple(dict.fromkeys(found))


def read_identities(fields: Fields, key: str) -> list[Identity]:
    return [
        Identity(item.text("provider"), item.text("mode", "user"), item.texts("scopes"), item.flag("optional"))
        for item in fields.entries(key)
    ]


def _operation_auth(fields: Fields) -> list[OperationAuth]:
    return [
        OperationAuth(
            operation,
            auth.optional_text("provider"),
            auth.optional_text("mode"),
            auth.texts("scopes"),
            auth.optional_text("subject_hint"),
            {secret: scope.text("allowed_scope", "system_or_user") for secret, scope in auth.named("secrets")},
        )
        for operation, auth in fields.named("op_auth")
    ]


def _secrets(fields: Fields) -> tuple[str, ...]:
    """Every secret named anywhere, so that consent shows them all and nothing undeclared can be asked for."""
    named = [secret for _, auth in fields.named("op_auth") for secret, _ in auth.named("secrets")]
    return tuple(dict.fromkeys([*fields.texts("secrets"), *named]))
