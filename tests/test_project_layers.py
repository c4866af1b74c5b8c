"""What the import contracts of pyproject.toml cannot say: single functions of the library, and the SDK's freedom."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from fixtures.all_cases import all_cases

SOURCE = Path(__file__).resolve().parents[1] / "src"
# Parts of packages that are otherwise pure, so the contracts cannot name the package.
IMPURE_PARTS = {"urllib.request", "http.client", "http.server", "importlib.resources"}


def imported(path: Path) -> set[str]:
    """Every module that a file imports anywhere in it, by its full name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def opens_files(path: Path) -> list[int]:
    """The lines where a file calls the built-in open."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"]


@all_cases("path", sorted((SOURCE / "paddock" / "core").rglob("*.py")), ids=lambda path: path.name)
def test_the_core_opens_nothing(path: Path) -> None:
    assert imported(path) & IMPURE_PARTS == set()
    assert opens_files(path) == []


def test_the_sdk_uses_the_standard_library_alone_and_never_the_host() -> None:
    allowed = sys.stdlib_module_names | {"paddock_sdk"}
    foreign = {
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in (SOURCE / "paddock_sdk").rglob("*.py")
        for name in imported(path)
        if name.partition(".")[0] not in allowed
    }

    assert foreign == set()


def test_the_host_never_imports_the_sdk() -> None:
    importers = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "paddock").rglob("*.py")
        if any(name.partition(".")[0] == "paddock_sdk" for name in imported(path))
        and "templates" not in path.parts  # first files of plugins: never imported here, only copied
    }

    assert importers == set()


@all_cases("path", sorted((SOURCE / "paddock").glob("*/__init__.py")), ids=lambda path: path.parent.name)
def test_a_room_says_what_it_is_and_does_nothing_when_imported(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))

    assert ast.get_docstring(module)
    assert len(module.body) == 1


def test_only_the_gate_calls_the_supervisor() -> None:
    callers = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "paddock").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call"
        if ast.unparse(node.func.value).rpartition(".")[2].strip("_") == "supervisor"
    }
    assert callers == {"paddock/gate/gate.py"}
