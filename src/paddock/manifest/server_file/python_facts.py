"""Finds out about a Python server without running it: what it imports, what it calls itself, and its first sentence.
Pure."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import Invalid
from paddock.core.printable import printable
from paddock.manifest.server_file.script_metadata import ScriptMetadata, read_script_metadata
from paddock.manifest.syntax.python_source import parse_python_source

# Packages that provide the module of the same name, and are what most servers are written with.
_KNOWN_PACKAGES = ("fastmcp", "mcp")
# Of the mcp package before version 2.
_FORMER_FASTMCP = "mcp.server.fastmcp"
_SERVER_CLASSES = frozenset({"FastMCP", "MCPServer", "Server"})
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class PythonFacts(Struct, frozen=True):
    """What a Python file says about itself.

    Attributes:
        imports: The modules that are not in the standard library, by their first word, with the first line of each.
        metadata: Its inline metadata; None if it has none.
        requirements: The packages that it needs, as far as they are known.
        server_name: What it names its server; empty if that is computed.
        summary: The first line of its docstring.
    """

    imports: Mapping[str, int]
    metadata: ScriptMetadata | None
    requirements: tuple[str, ...]
    server_name: str = ""
    summary: str = ""


def read_python_facts(name: str, text: str) -> PythonFacts:
    """Read a Python file.

    Raises:
        Invalid: it is not Python, is too large, or its inline metadata is malformed.
    """
    module = _parse(name, text)
    metadata = read_script_metadata(name, text)
    imports: dict[str, int] = {}
    full_names: set[str] = set()
    server_name = ""
    for node in _needed_nodes(module):
        for imported in _imported_modules(node):
            full_names.add(imported)
            root = imported.partition(".")[0]
            if root not in sys.stdlib_module_names:
                imports.setdefault(root, getattr(node, "lineno", 1))
        server_name = server_name or _server_name(node)
    requirements = metadata.requirements if metadata else _known_requirements(imports, full_names)
    docstring = (ast.get_docstring(module) or "").strip()
    return PythonFacts(imports, metadata, requirements, server_name, docstring.partition("\n")[0].strip())


def _parse(name: str, text: str) -> ast.Module:
    try:
        return parse_python_source(name, text)
    except Invalid as error:
        problems = [
            replace(problem, path=name, hint=problem.hint or "correct it, then install the file again")
            for problem in error.problems
        ]
        message = f"{printable(name)} cannot be read as Python"
        raise Invalid(message, problems, code="server.unreadable") from None


def _known_requirements(imports: Mapping[str, int], full_names: set[str]) -> tuple[str, ...]:
    former = any(one == _FORMER_FASTMCP or one.startswith(f"{_FORMER_FASTMCP}.") for one in full_names)
    return tuple("mcp<2" if name == "mcp" and former else name for name in _KNOWN_PACKAGES if name in imports)


def _needed_nodes(module: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes in order, without imports that the file can do without: those for type checkers, and those whose
    failure it handles."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        yield node
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Try) and any(map(_handles_import_error, node.handlers)):
            children = [*node.orelse, *node.finalbody]
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            children = list(node.orelse)
        pending += reversed(children)


def _handles_import_error(handler: ast.ExceptHandler) -> bool:
    match handler.type:
        case None:
            return True
        case ast.Name(id=name):
            return name in _IMPORT_ERRORS
        case ast.Tuple(elts=items):
            return any(isinstance(one, ast.Name) and one.id in _IMPORT_ERRORS for one in items)
        case _:
            return False


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _imported_modules(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            # `from mcp.server import fastmcp` imports a module as well.
            return [module, *(f"{module}.{alias.name}" for alias in names)]
        case _:
            return []


def _server_name(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in _SERVER_CLASSES:
            named = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
            match [*node.args[:1], *named]:
                case [ast.Constant(value=str(name)), *_]:
                    return name
                case _:
                    return ""
        case _:
            return ""
