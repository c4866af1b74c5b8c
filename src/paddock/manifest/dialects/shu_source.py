"""Reads parameter schemas and actions from the source of Shu classes, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct, field

from paddock.core.errors import Invalid
from paddock.core.schema.compile import check_schema, join_path
from paddock.manifest.model import CallableForm, CallableSpec, JsonObject
from paddock.manifest.package_files import PackageFiles
from paddock.manifest.rules.field_rules import check_callable_name, check_no_auth_fields, read_effects, read_schema
from paddock.manifest.syntax.fields import Fields, ProblemReport
from paddock.manifest.syntax.python_source import parse_python_source, read_literal

MAX_SOURCE_CHARS: Final = 4 * 1024 * 1024  # read per manifest
MAX_ACTIONS: Final = 100  # per class


class ShuSources:
    """The package's Python code. Each module is read at most once, within a total limit."""

    def __init__(self, report: ProblemReport, fields: Fields, files: PackageFiles) -> None:
        self._report = report
        self._fields = fields
        self._files = files
        self._chars_left = MAX_SOURCE_CHARS
        self._modules: dict[str, _ParsedModule] = {}
        self._schemas: dict[str, JsonObject | None] = {}  # target -> result of its get_schema

    def schema(self, name: str, target: str) -> JsonObject | None:
        """Return the parameter schema that `get_schema` returns, if it is a literal."""
        if target not in self._schemas:
            self._schemas[target] = self._returned_schema(name, target)
        return self._schemas[target]

    def actions(self, name: str, target: str) -> list[Fields]:
        """Return the actions that `list_actions` returns: literals, objects built from literals, or names of such."""
        module, class_found = self._find_class(name, target)
        path = self._fields.at("entrypoints", name, "list_actions")
        if class_found is None or class_found.method("list_actions") is None:
            return []
        for node in class_found.returns("list_actions"):
            try:
                actions = _LiteralReader(module.where, class_found.values(module)).read_list(node)
            except (Invalid, _NotLiteral):
                break
            return [Fields(action, (*path, index)) for index, action in enumerate(actions[:MAX_ACTIONS])]
        hint = (
            "return a list of literals, or list them in the manifest as `actions`: people agree to what they can read"
        )
        self._report.warn(path, "its actions are computed, so they cannot be called", hint, "actions_computed")
        return []

    def _find_class(self, name: str, target: str) -> tuple[_ParsedModule, _ParsedClass | None]:
        module, _, class_name = target.partition(":")
        if module not in self._modules:
            self._modules[module] = self._parse_module(name, module)
        return self._modules[module], self._modules[module].classes.get(class_name)

    def _returned_schema(self, name: str, target: str) -> JsonObject | None:
        module, class_found = self._find_class(name, target)
        path = self._fields.at("entrypoints", name, "get_schema")
        for node in class_found.returns("get_schema") if class_found else ():
            try:
                value = read_literal(module.where, node)
            except Invalid:
                return None  # computed: known only when the plugin runs
            if isinstance(value, dict):
                schema = cast("dict[str, Any]", value)
                self._report.add(check_schema(schema, join_path(path)))
                check_no_auth_fields(self._report, path, schema)
                return schema
        return None

    def _parse_module(self, name: str, module: str) -> _ParsedModule:
        source = self._files.module_source(module) if self._chars_left > 0 else None
        if source is None:
            return _ParsedModule("")
        where, text = source
        self._chars_left -= len(text)
        try:
            tree = parse_python_source(where, text)
        except Invalid as error:
            message = f"{where} {error.problems[0].message}"
            self._report.error(self._fields.at("entrypoints", name), message, "fix the file", "entrypoint")
            return _ParsedModule(where)
        classes: dict[str, _ParsedClass] = {}
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                classes.setdefault(statement.name, _ParsedClass(statement))
        return _ParsedModule(where, classes, _single_assignments(tree.body))


def read_actions(report: ProblemReport, name: str, actions: Iterator[Fields] | list[Fields]) -> Iterator[CallableSpec]:
    """Read the actions of a class as callables. Their effects are unknown unless declared.

    Args:
        report: Collects mistakes.
        name: The callable whose class performs them.
        actions: The fields of each action, as in Shu's ActionMeta.
    """
    for fields in actions:
        action = fields.text("name")
        if not action:
            report.error(fields.at("name"), "an action has no name", "give it one", "missing")
            continue
        check_callable_name(report, fields.at("name"), action)
        schema = read_schema(report, fields, "params_schema")
        check_no_auth_fields(report, fields.at("params_schema"), schema)
        yield CallableSpec(
            action,
            CallableForm.ACTION,
            fields.text("description"),
            input_schema=schema,
            effects=read_effects(report, fields),
            required_scopes=fields.texts("required_scopes"),
            # Anything but a clear no counts as yes: this decides whether a person must approve.
            requires_approval=fields.get("requires_approval") not in (None, False),
            of=name,
        )


class _NotLiteral(Exception):
    """The value is known only when the code runs."""


class _ParsedClass(NamedTuple):
    node: ast.ClassDef

    def method(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        functions = (one for one in self.node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
        return next((one for one in functions if one.name == name), None)

    def returns(self, name: str) -> list[ast.expr]:
        method = self.method(name)
        statements = method.body if method else ()
        return [
            statement.value
            for statement in statements
            if isinstance(statement, ast.Return) and statement.value is not None
        ]

    def values(self, module: _ParsedModule) -> dict[str, ast.expr]:
        """Map the names used in its methods to expressions: `self.NAME` to class and `NAME` to module attributes."""
        own = _single_assignments(self.node.body)
        return module.values | {
            f"{prefix}.{name}": node for name, node in own.items() for prefix in ("self", self.node.name)
        }


class _ParsedModule(NamedTuple):
    where: str
    classes: Mapping[str, _ParsedClass] = {}
    values: dict[str, ast.expr] = {}  # noqa: RUF012 - never changed


def _single_assignments(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Map names to the expressions assigned to them. Names assigned twice are left out, as ambiguous."""
    values: dict[str, ast.expr] = {}
    ambiguous: set[str] = set()
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=node)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as node)
            ):
                ambiguous |= {name} & values.keys()
                values[name] = node
            case _:
                pass
    return {name: node for name, node in values.items() if name not in ambiguous}


class _LiteralReader(Struct, frozen=True):
    """Evaluates expressions in which names may stand for literals. Each name is evaluated once."""

    where: str
    expressions: Mapping[str, ast.expr]
    _read: dict[str, Any] = field(default_factory=dict[str, Any])

    def read_list(self, node: ast.expr) -> list[JsonObject]:
        """Return a list of objects.

        Raises:
            Invalid, _NotLiteral: something in it is computed, or it is not a list.
        """
        if isinstance(node, ast.List | ast.Tuple):
            return [self._object(item) for item in node.elts[: MAX_ACTIONS + 1]]
        name = _target_name(node)
        if name in self.expressions and isinstance(self.expressions[name], ast.List | ast.Tuple):
            return self.read_list(self.expressions[name])
        raise _NotLiteral

    def _object(self, node: ast.expr) -> JsonObject:
        match node:
            case ast.Dict(keys=keys) if all(isinstance(key, ast.Constant) for key in keys):
                names = [str(key.value) for key in keys if isinstance(key, ast.Constant)]
                return {name: self._value(value) for name, value in zip(names, node.values, strict=True)}
            case ast.Call(args=[], keywords=keywords) if all(keyword.arg for keyword in keywords):
                return {str(keyword.arg): self._value(keyword.value) for keyword in keywords}
            case _:
                value = self._value(node)
                if isinstance(value, dict):
                    return cast("dict[str, Any]", value)
                raise _NotLiteral

    def _value(self, node: ast.expr) -> Any:
        name = _target_name(node)
        if name not in self.expressions:
            return read_literal(self.where, node)
        if name not in self._read:
            self._read[name] = read_literal(self.where, self.expressions[name])
        return self._read[name]


def _target_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case _:
            return ""
