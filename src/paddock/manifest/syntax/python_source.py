"""Reads Python source as data, without running it. Literals are accepted; computed values are refused."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.core.errors import Problem
from paddock.core.schema.compile import join_path
from paddock.manifest.syntax.document import (
    MAX_DEPTH,
    MAX_DIGITS,
    ParsedDocument,
    ValuePath,
    check_size,
    duplicate_key_error,
    invalid_file_error,
    too_deep_error,
)

MANIFEST_VARIABLE = "PLUGIN_MANIFEST"
# A syntax tree takes some hundred times the memory of its source.
MAX_SOURCE_CHARS = 256 * 1024

_EXPRESSION_TEXT: dict[type[ast.expr], str] = {
    ast.Call: "a call",
    ast.Name: "a variable",
    ast.Attribute: "an attribute",
    ast.BinOp: "an operation",
    ast.BoolOp: "an operation",
    ast.UnaryOp: "an operation",
    ast.JoinedStr: "an f-string",
    ast.Subscript: "an element of something",
    ast.IfExp: "a condition",
    ast.Starred: "an unpacking",
    ast.Lambda: "a function",
    ast.Set: "a set",
}


def parse_python(name: str, text: str) -> ParsedDocument:
    """Return the value assigned to PLUGIN_MANIFEST, which must be a literal.

    Raises:
        Invalid: it is not a literal, or other top-level code uses it.
    """
    module = parse_python_source(name, text)
    expression: ast.expr | None = None
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=variable)], value=node) if (
                variable == MANIFEST_VARIABLE and not expression
            ):
                expression = node
            case ast.AnnAssign(target=ast.Name(id=variable), value=ast.expr() as node) if (
                variable == MANIFEST_VARIABLE and not expression
            ):
                expression = node
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass  # their bodies run only when the file runs, and it never does
            case _:
                _check_single_assignment(name, statement)
    if expression is None:
        raise invalid_file_error(
            name, f"does not assign {MANIFEST_VARIABLE}", hint=f"write {MANIFEST_VARIABLE} = {{…}}", code="missing"
        )
    lines: dict[ValuePath, int] = {}
    value = read_literal(name, expression, (), lines)
    check_size(name, value)
    return ParsedDocument(name, value, lambda: lines)


def _check_single_assignment(name: str, statement: ast.stmt) -> None:
    """Refuse a second use: the running file could then mean something else than what is read here."""
    try:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == MANIFEST_VARIABLE:
                raise invalid_file_error(
                    name,
                    f"{MANIFEST_VARIABLE} is computed here, and a manifest is read without running it",
                    hint="assign it once, as one literal",
                    line=node.lineno,
                    code="computed",
                )
    except RecursionError:
        raise too_deep_error(name, statement.lineno) from None


def parse_python_source(name: str, text: str) -> ast.Module:
    """Return the syntax tree of a source file that is never executed.

    Raises:
        Invalid: not Python, too large, or nested beyond the parser's limit.
    """
    if len(text) > MAX_SOURCE_CHARS:
        raise invalid_file_error(
            name, f"is larger than {MAX_SOURCE_CHARS // 1024} KiB", hint="shorten it", code="too_large"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # do not print warnings about the author's escapes
            return ast.parse(text, "<manifest>")
    except SyntaxError as error:
        raise invalid_file_error(name, f"is not Python: {error.msg}", line=error.lineno, code="malformed") from None
    except (RecursionError, MemoryError, ValueError):
        raise too_deep_error(name) from None


def read_literal(name: str, node: ast.expr, path: ValuePath = (), lines: dict[ValuePath, int] | None = None) -> Any:
    """Return the value of a literal expression.

    Raises:
        Invalid: something in it is computed or is not a JSON value; carries the line.
    """
    if len(path) > MAX_DEPTH:
        raise too_deep_error(name, node.lineno)
    if lines is not None:
        lines.setdefault(path, node.lineno)
    match node:
        case ast.Constant(value=None | bool() | str() as value):
            return value
        case ast.Constant(value=int() | float() as number):
            return _check_digits(name, number, path, node.lineno)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if not isinstance(
            number, bool
        ):
            return -_check_digits(name, number, path, node.lineno)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [read_literal(name, item, (*path, index), lines) for index, item in enumerate(items)]
        case ast.Dict():
            return _read_mapping(name, node, path, lines)
        case ast.Constant():
            kind = type(node.value).__name__
            raise invalid_file_error(
                name,
                f"a value of kind {kind} has no place in a manifest",
                hint="write text, a number, true or false, a list or a dict",
                line=node.lineno,
                path=join_path(path),
                code="not_json",
            )
        case _:
            description = _EXPRESSION_TEXT.get(type(node), "an expression")
            raise invalid_file_error(
                name,
                f"is computed ({description}), and a manifest is read without running it",
                hint="write the value out as a literal",
                line=node.lineno,
                path=join_path(path),
                code="computed",
            )


def _read_mapping(name: str, node: ast.Dict, path: ValuePath, lines: dict[ValuePath, int] | None) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise invalid_file_error(
                name,
                "a key is not literal text",
                hint="write it as text in quotes",
                line=(key or item).lineno,
                path=join_path(path),
                code="computed",
            )
        if key.value in result:
            raise duplicate_key_error(name, key.value, join_path((*path, key.value)), key.lineno)
        if lines is not None:
            lines[(*path, key.value)] = key.lineno
        result[key.value] = read_literal(name, item, (*path, key.value), lines)
    return result


def _check_digits(name: str, number: float, path: ValuePath, line: int) -> float:
    too_large = abs(number) >= 10**MAX_DIGITS if isinstance(number, int) else not math.isfinite(number)
    if too_large:
        raise invalid_file_error(name, "has a number that is too large", line=line, path=join_path(path), code="number")
    return number


_IMPORT_FUNCTIONS = frozenset({"__import__", "import_module"})


def find_refused_imports(where: str, text: str, refused: Mapping[str, str]) -> list[Problem]:
    """Return every import of a refused module, with the reason; none if the file is not Python.

    Args:
        where: The file's path in its package.
        text: Its content.
        refused: Refused modules, including their submodules, each with the reason.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # a file that cannot be loaded imports nothing
    problems: dict[tuple[int, str], Problem] = {}
    for line, module in _find_imports(tree):
        name = next((name for name in refused if module == name or module.startswith(f"{name}.")), None)
        if name is not None:
            problems.setdefault(
                (line, name), Problem(where, f"imports {module}", refused[name], "refused_import", line)
            )
    return list(problems.values())


def _find_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name of each imported module: by statement, or by a call with a literal name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                # `from urllib import request` may import a module as well as a name of one.
                yield node.lineno, module
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module)), *_]
            ):
                if name in _IMPORT_FUNCTIONS:
                    yield node.lineno, module
            case _:
                pass
