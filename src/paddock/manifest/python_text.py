"""Python source as data: read, never run. Literals count, anything computed is refused with its line."""

from __future__ import annotations

import ast
import math
import warnings
from typing import Any

from paddock.core.schema import join_path
from paddock.manifest.document import MAX_DEPTH, MAX_DIGITS, Document, Path, check_size, refused, too_deep, twice

MANIFEST_VARIABLE = "PLUGIN_MANIFEST"
# A syntax tree takes some hundred times the memory of its source.
MAX_SOURCE = 256 * 1024

_IN_WORDS: dict[type[ast.expr], str] = {
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


def parse_python(name: str, text: str) -> Document:
    """The value assigned to PLUGIN_MANIFEST, which must stand there as a literal.

    Raises:
        Invalid: it does not, or anything else at the top level touches it.
    """
    module = parse_python_source(name, text)
    found: ast.expr | None = None
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=variable)], value=node) if variable == MANIFEST_VARIABLE and not found:
                found = node
            case ast.AnnAssign(target=ast.Name(id=variable), value=ast.expr() as node) if (
                variable == MANIFEST_VARIABLE and not found
            ):
                found = node
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass  # what these would do to it happens only when the file runs, and it never does
            case _:
                _check_untouched(name, statement)
    if found is None:
        raise refused(
            name, f"does not assign {MANIFEST_VARIABLE}", hint=f"write {MANIFEST_VARIABLE} = {{…}}", code="missing"
        )
    lines: dict[Path, int] = {}
    value = literal(name, found, (), lines)
    check_size(name, value)
    return Document(name, value, lambda: lines)


def _check_untouched(name: str, statement: ast.stmt) -> None:
    """A second assignment or a later change would make the file mean something else than what is read."""
    try:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == MANIFEST_VARIABLE:
                raise refused(
                    name,
                    f"{MANIFEST_VARIABLE} is computed here, and a manifest is read without running it",
                    hint="assign it once, as one literal",
                    line=node.lineno,
                    code="computed",
                )
    except RecursionError:
        raise too_deep(name, statement.lineno) from None


def parse_python_source(name: str, text: str) -> ast.Module:
    """The syntax tree of a source file that is never executed.

    Raises:
        Invalid: not Python, too large, or nested beyond what the parser takes.
    """
    if len(text) > MAX_SOURCE:
        raise refused(name, f"is larger than {MAX_SOURCE // 1024} KiB", hint="shorten it", code="too_large")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the author's doubtful escapes are not ours to print
            return ast.parse(text, "<manifest>")
    except SyntaxError as error:
        raise refused(name, f"is not Python: {error.msg}", line=error.lineno, code="malformed") from None
    except (RecursionError, MemoryError, ValueError):
        raise too_deep(name) from None


def literal(name: str, node: ast.expr, path: Path = (), lines: dict[Path, int] | None = None) -> Any:
    """The value of a literal expression.

    Raises:
        Invalid: anything in it is computed or is no JSON value; says on which line.
    """
    if len(path) > MAX_DEPTH:
        raise too_deep(name, node.lineno)
    if lines is not None:
        lines.setdefault(path, node.lineno)
    match node:
        case ast.Constant(value=None | bool() | str() as value):
            return value
        case ast.Constant(value=int() | float() as number):
            return _bounded(name, number, path, node.lineno)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if not isinstance(
            number, bool
        ):
            return -_bounded(name, number, path, node.lineno)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [literal(name, item, (*path, index), lines) for index, item in enumerate(items)]
        case ast.Dict():
            return _mapping(name, node, path, lines)
        case ast.Constant():
            kind = type(node.value).__name__
            raise refused(
                name,
                f"a value of kind {kind} has no place in a manifest",
                hint="write text, a number, true or false, a list or a dict",
                line=node.lineno,
                path=join_path(path),
                code="not_json",
            )
        case _:
            what = _IN_WORDS.get(type(node), "an expression")
            raise refused(
                name,
                f"is computed ({what}), and a manifest is read without running it",
                hint="write the value out as a literal",
                line=node.lineno,
                path=join_path(path),
                code="computed",
            )


def _mapping(name: str, node: ast.Dict, path: Path, lines: dict[Path, int] | None) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise refused(
                name,
                "a key is not literal text",
                hint="write it as text in quotes",
                line=(key or item).lineno,
                path=join_path(path),
                code="computed",
            )
        if key.value in result:
            raise twice(name, key.value, join_path((*path, key.value)), key.lineno)
        if lines is not None:
            lines[(*path, key.value)] = key.lineno
        result[key.value] = literal(name, item, (*path, key.value), lines)
    return result


def _bounded(name: str, number: float, path: Path, line: int) -> float:
    too_large = abs(number) >= 10**MAX_DIGITS if isinstance(number, int) else not math.isfinite(number)
    if too_large:
        raise refused(name, "has a number that is too large", line=line, path=join_path(path), code="number")
    return number
