"""What a Python file imports that it may not, found without running it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from paddock.core.errors import Problem

_IMPORTERS = frozenset({"__import__", "import_module"})


def refused_imports(where: str, text: str, refused: Mapping[str, str]) -> list[Problem]:
    """Every import in a file of a name that is refused, with the reason; none where the file is no Python.

    Args:
        where: The file's path in its package.
        text: What it says.
        refused: Names of modules, which stand for what is below them too, each with the reason.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # what cannot be loaded imports nothing
    found: dict[tuple[int, str], Problem] = {}
    for line, module in _imported(tree):
        name = next((name for name in refused if module == name or module.startswith(f"{name}.")), None)
        if name is not None:
            found.setdefault((line, name), Problem(where, f"imports {module}", refused[name], "refused_import", line))
    return list(found.values())


def _imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of each module that is imported, by statement or by a call with its name written out."""
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
                if name in _IMPORTERS:
                    yield node.lineno, module
            case _:
                pass
