"""Objects get what they depend on when they are built, and change their own state: nobody else assigns to them.

Assignments to another object are allowed to the data of a mutable dataclass of the same room, and to the data of a
class of the same file. Functions are never assigned, nor added to a list of another object: they are passed to a
constructor, or to a method that says when they are called.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import TypeGuard

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "paddock"

# By room: what is assigned nevertheless.
EXCEPTIONS = {
    "cage": {
        "self._relay_scope.deadline": "a cancel scope of anyio",
        "cage.deadline": "the state of a cage, kept by the warden's loop",
        "cage.refusal_sent": "likewise",
    },
    "capabilities": {
        "connection.authorizer": "a connection of apsw, whose hooks are attributes",
        "database.transaction": "the transaction under way, kept by the class that begins and ends it",
    },
    "gate": {
        "target.start_template": "a cache, filled by the first call",
        "target.end_template": "a cache, filled by the first call",
    },
    "mcp_server": {"reply.status": "a response that is being built"},
}

ADDING_METHODS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})


@dataclass
class Definitions:
    """What the classes of the project define."""

    attributes: set[str] = field(default_factory=set[str])
    of_file: dict[Path, set[str]] = field(default_factory=lambda: defaultdict(set))
    record_fields: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by room
    functions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # attributes by room


def read_definitions(trees: Mapping[Path, ast.Module]) -> Definitions:
    found = Definitions()
    function_types = {"Callable", *(name for tree in trees.values() for name in function_aliases(tree))}
    for path, tree in trees.items():
        for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for name, annotation in attributes_of(owner):
                found.attributes.add(name)
                found.of_file[path].add(name)
                if function_types & set(re.findall(r"\w+", annotation)):
                    found.functions[path.parts[0]].add(name)
            if is_record(owner):
                found.record_fields[path.parts[0]] |= {name for name, _ in attributes_of(owner)}
    return found


def function_aliases(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            is_alias = ast.unparse(node.annotation) == "TypeAlias"
            yield from (node.target.id,) if is_alias and ast.unparse(node.value).startswith("Callable[") else ()


def attributes_of(owner: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The attributes of a class, each with its annotation if it has one; for `self.x = x`, that of the parameter."""
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, ast.unparse(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            annotations = {one.arg: ast.unparse(one.annotation) for one in arguments if one.annotation}
            for inner in ast.walk(node):
                if isinstance(inner, ast.AnnAssign) and is_own(inner.target):
                    yield inner.target.attr, ast.unparse(inner.annotation)
                elif isinstance(inner, ast.Assign):
                    value = inner.value.id if isinstance(inner.value, ast.Name) else ""
                    for target in inner.targets:
                        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                            if is_own(one):
                                yield one.attr, annotations.get(value, "")


def is_record(owner: ast.ClassDef) -> bool:
    """Whether a class is a struct or a dataclass whose fields may change."""
    decorators = [ast.unparse(decorator) for decorator in owner.decorator_list]
    if any("dataclass" in one and "frozen=True" not in one for one in decorators):
        return True
    frozen = any(option.arg == "frozen" and ast.unparse(option.value) == "True" for option in owner.keywords)
    return not frozen and any(ast.unparse(base) == "Struct" for base in owner.bases)


def is_own(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def find_wiring(trees: Mapping[Path, ast.Module]) -> Iterator[tuple[Path, int, str]]:
    """Every assignment to another object that makes it what it is: its file, its line, and what is assigned."""
    known = read_definitions(trees)
    functions = set[str]().union(*known.functions.values())
    for path, tree in trees.items():
        data = (known.record_fields[path.parts[0]] | known.of_file[path]) - known.functions[path.parts[0]]
        modules = {
            one.asname or one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names
        }
        for node in ast.walk(tree):
            match node:
                case ast.Assign(value=ast.Lambda()) | ast.Assign(value=ast.Call(func=ast.Name(id="partial"))):
                    for target in node.targets:
                        if isinstance(target, ast.Attribute) and not is_own(target) and target.attr in data:
                            yield path, node.lineno, ast.unparse(target)
                case ast.Attribute(ctx=ast.Store()) if not is_own(node):
                    # What no class of ours defines belongs to an object of Python or of a library.
                    if node.attr in known.attributes - data and ast.unparse(node.value) not in modules:
                        yield path, node.lineno, ast.unparse(node)
                case ast.Call(func=ast.Attribute(value=ast.Attribute() as holder, attr=method)):
                    if method in ADDING_METHODS and not is_own(holder) and holder.attr in functions:
                        yield path, node.lineno, ast.unparse(holder)
                case (
                    ast.Call(func=ast.Name(id="setattr"), args=[target, *_])
                    | ast.Call(func=ast.Attribute(attr="__setattr__"), args=[target, *_])
                ):
                    if ast.unparse(target) not in ("self", "cls", *modules):
                        yield path, node.lineno, ast.unparse(target)
                case _:
                    pass


def test_objects_are_not_wired_after_they_were_built() -> None:
    trees = {
        path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
        if "templates" not in path.parts
    }
    found = list(find_wiring(trees))

    unexpected = [
        f"{path}:{line} {target}" for path, line, target in found if target not in EXCEPTIONS.get(path.parts[0], {})
    ]
    assert unexpected == [], "pass it to the constructor, or let the object change itself in a method"
    used = {(path.parts[0], target) for path, _, target in found}
    assert used == {(room, target) for room, targets in EXCEPTIONS.items() for target in targets}, "one is not needed"


LAMP = """
    class Lamp:
        def __init__(self) -> None:
            self.on_lit: Callable[[], None] | None = None
            self.watchers: list[Watcher] = []
            self.brightness = 0

    Watcher: TypeAlias = Callable[[int], None]
"""


@pytest.mark.parametrize(
    "line",
    [
        "lamp.on_lit = ring",
        "lamp.watchers.append(ring)",
        "lamp.watchers += [ring]",
        "room.lamp.watchers.extend(bells)",
        "lamp.brightness = 1",
        "lamp.brightness = lambda: 1",
        "setattr(lamp, name, ring)",
        "object.__setattr__(lamp, name, ring)",
    ],
)
def test_wiring_is_found_in_another_file(line: str) -> None:
    trees = {Path("house/lamp.py"): ast.parse(dedent(LAMP)), Path("house/room.py"): ast.parse(line)}

    assert [path.name for path, _, _ in find_wiring(trees)] == ["room.py"]


@pytest.mark.parametrize("line", ["lamp.brightness = 1", "lamp.colours.append(red)", "sys.brightness = 1"])
def test_the_state_of_a_class_in_the_same_file_is_no_wiring(line: str) -> None:
    tree = ast.parse(f"import sys\n{dedent(LAMP)}\n{line}")

    assert list(find_wiring({Path("house/lamp.py"): tree})) == []


@pytest.mark.parametrize("line", ["lamp.on_lit = ring", "lamp.watchers.append(ring)", "lamp.brightness = lambda: 1"])
def test_functions_are_wiring_in_the_same_file_too(line: str) -> None:
    tree = ast.parse(f"{dedent(LAMP)}\n{line}")

    assert len(list(find_wiring({Path("house/lamp.py"): tree}))) == 1
