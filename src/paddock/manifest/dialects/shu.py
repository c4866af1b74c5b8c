"""Shu's manifest: Python classes named by entrypoints, host services, identities and feed-safe operations."""

from __future__ import annotations

import ast
from typing import Any, cast

from paddock.core.errors import Invalid
from paddock.core.ids import PluginName
from paddock.core.schema import check_schema, join_path
from paddock.manifest import capability as capabilities
from paddock.manifest.capability import BadCapability, Capability, HostService
from paddock.manifest.document import Path
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
            _execute(report, fields, files, callable_name, target) for callable_name, target in entrypoints.items()
        ),
        policy_tags=fields.texts("policy_tags"),
        identities=tuple(read_identities(fields, "required_identities")),
        operation_auth=tuple(_operation_auth(fields)),
        secrets=_secrets(fields),
        feeds=Feeds(default_op, allowed_ops),
        origins=fields.texts("origins"),
    )


def _execute(report: Report, fields: Fields, files: PackageFiles, name: str, target: str) -> CallableSpec:
    """Each entrypoint is one read-only callable: writing is what actions are for."""
    declared = read_schema(report, fields, "params_schema")
    path = fields.at("params_schema")
    if declared is None:
        declared, path = _schema_in_source(report, fields, files, name, target)
    check_no_auth_fields(report, path, declared)
    return CallableSpec(
        name,
        Form.WHOLE,
        fields.text("description"),
        input_schema=declared,
        output_schema=read_schema(report, fields, "output_schema"),
        effects=(Effect.READ_ONLY,),
    )


def _schema_in_source(
    report: Report, fields: Fields, files: PackageFiles, name: str, target: str
) -> tuple[JsonObject | None, Path]:
    """The parameter schema that `get_schema` returns, where it is a literal; the code is read and never run."""
    module, _, class_name = target.partition(":")
    source = files.module_source(module)
    path = fields.at("entrypoints", name, "get_schema")
    if source is None:
        return None, path
    where, text = source
    try:
        tree = parse_python_source(where, text)
    except Invalid as error:
        report.error(
            fields.at("entrypoints", name), f"{where} {error.problems[0].message}", "mend the file", "entrypoint"
        )
        return None, path
    for node in _method_returns(tree, class_name, "get_schema"):
        try:
            value = literal(where, node)
        except Invalid:
            return None, path  # computed: known once the plugin runs
        if isinstance(value, dict):
            schema = cast("dict[str, Any]", value)
            report.add(check_schema(schema, join_path(path)))
            return schema, path
    return None, path


def _method_returns(tree: ast.Module, class_name: str, method: str) -> list[ast.expr]:
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name == class_name:
            for member in statement.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name == method:
                    return [
                        step.value for step in member.body if isinstance(step, ast.Return) and step.value is not None
                    ]
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
