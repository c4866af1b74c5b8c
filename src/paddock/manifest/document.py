"""Untrusted text to plain values, with limits: YAML, JSON (with comments where VS Code writes them), Python literals.

What comes out holds only dict, list, str, int, float, bool and None, is at most 64 deep and 50,000 values large,
has no duplicate keys, and knows on which line each value stood.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from paddock.core.errors import Invalid, Problem
from paddock.core.schema import join_path

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 50_000

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its values, and the line each path began on."""

    name: str
    value: Any
    lines: dict[Path, int] = field(default_factory=dict[Path, int])

    def line_of(self, path: Path) -> int | None:
        """The line of a path, or of its nearest ancestor that has one."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return self.lines.get(())


def parse_document(name: str, data: bytes) -> Document:
    """Parse a file by its name's ending.

    Raises:
        Invalid: not UTF-8, too large, too deep, malformed, duplicate keys, aliases, or computed Python.
    """
    text = _decode(name, data)
    if name.endswith(".py"):
        return _parse_python(name, text)
    if name.endswith((".yaml", ".yml")):
        return _parse_yaml(name, text)
    return _parse_json(name, text)


def _refuse(name: str, message: str, *, hint: str = "", line: int | None = None, path: str = "", code: str) -> Invalid:
    return Invalid(f"{name} cannot be read", [Problem(path, message, hint, code, line)], code="manifest.unreadable")


def _decode(name: str, data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise _refuse(
            name, f"is larger than {MAX_BYTES // 1024} KiB", hint="a manifest is a small text file", code="too_large"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refuse(
            name, f"is not UTF-8 text (byte {error.start})", hint="save the file as UTF-8", line=line, code="not_utf8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _refuse(name, "has a NUL byte", hint="remove it; a manifest is text", line=line, code="nul_byte")
    return text


# --- YAML -----------------------------------------------------------------------------------------------------------
# The values are built from parser events, not by a loader: that is where aliases (which can blow up exponentially),
# depth and duplicate keys can be refused before any memory is spent on them.

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"^[-+]?(0|[1-9][0-9]{0,18})$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


def plain_scalar(text: str) -> Any:
    """What an unquoted YAML scalar means (YAML 1.2: `no` is a word, not false)."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text):
        return int(text)
    # `1.2.3`, `1_000` and `0123` stay words; infinity and not-a-number are not values of ours.
    if _FLOAT.match(text) and not (text.lstrip("+-").startswith("0") and text.lstrip("+-").isdigit()):
        number = float(text)
        return number if number not in (float("inf"), float("-inf")) else text
    return text


class _Builder:
    """Grows one document from parser events, without recursion."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: dict[Path, int] = {}
        self.root: Any = None
        self._open: list[tuple[Any, Path]] = []
        self._key: list[str | None] = []
        self._count = 0

    def add(self, value: Any, line: int, *, container: bool = False) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise _refuse(self._name, f"holds more than {MAX_VALUES:,} values", line=line, code="too_many_values")
        path: Path = ()
        if not self._open:
            self.root = value
        else:
            parent, parent_path = self._open[-1]
            if isinstance(parent, list):
                items = cast("list[Any]", parent)
                path = (*parent_path, len(items))
                items.append(value)
            else:
                key = self._key[-1]
                if key is None:
                    self._take_key(value, line, container=container)
                    return
                path = (*parent_path, key)
                parent[key] = value
                self._key[-1] = None
        self.lines.setdefault(path, line)
        if container:
            if len(self._open) >= MAX_DEPTH:
                raise _refuse(self._name, f"is nested deeper than {MAX_DEPTH} levels", line=line, code="too_deep")
            self._open.append((value, path))
            self._key.append(None)

    def _take_key(self, value: Any, line: int, *, container: bool) -> None:
        parent, parent_path = self._open[-1]
        if container or not isinstance(value, str | int | float | bool):
            raise _refuse(self._name, "a key must be text", line=line, path=join_path(parent_path), code="bad_key")
        key = value if isinstance(value, str) else json.dumps(value)
        if key in parent:
            raise _refuse(
                self._name,
                f"the key {key!r} stands twice",
                hint="keep one of them",
                line=line,
                path=join_path((*parent_path, key)),
                code="duplicate_key",
            )
        self._key[-1] = key
        self.lines[(*parent_path, key)] = line

    def close(self) -> None:
        self._open.pop()
        self._key.pop()


def _parse_yaml(name: str, text: str) -> Document:
    import yaml

    builder = _Builder(name)
    documents = 0
    try:
        for event in cast("Iterator[Any]", yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):  # pyright: ignore[reportUnknownMemberType]
            line = event.start_mark.line + 1 if event.start_mark else None
            match event:
                case yaml.AliasEvent():
                    raise _refuse(
                        name, "uses an alias", hint="write the value out; aliases are not read", line=line, code="alias"
                    )
                case yaml.ScalarEvent():
                    builder.add(_scalar(name, event, line), line or 0)
                case yaml.SequenceStartEvent():
                    builder.add([], line or 0, container=True)
                case yaml.MappingStartEvent():
                    builder.add({}, line or 0, container=True)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    builder.close()
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise _refuse(
                            name,
                            "holds more than one document",
                            hint="keep one; remove the second '---'",
                            line=line,
                            code="many_documents",
                        )
                case _:
                    pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "malformed YAML"
        raise _refuse(name, f"is not YAML: {what}", line=mark.line + 1 if mark else None, code="malformed") from None
    except RecursionError:
        raise _refuse(name, f"is nested deeper than {MAX_DEPTH} levels", code="too_deep") from None
    return Document(name, builder.root, builder.lines)


def _scalar(name: str, event: Any, line: int | None) -> Any:
    tag: str | None = event.tag
    if tag is not None and tag not in ("!", "tag:yaml.org,2002:str"):
        raise _refuse(name, f"uses the tag {tag!r}", hint="only plain values are read", line=line, code="tag")
    return plain_scalar(event.value) if event.implicit[0] and tag is None else event.value


# --- JSON -----------------------------------------------------------------------------------------------------------

_JSON_TOKENS = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*(?:(?://[^\n]*\n|/\*.*?\*/)\s*)*[}\]])', re.DOTALL
)


class _Duplicate(ValueError):
    pass


def _parse_json(name: str, text: str) -> Document:
    if name.endswith("mcp.json") and ("//" in text or "/*" in text or re.search(r",\s*[}\]]", text)):
        # Editors' own configuration files have comments and trailing commas; keep line breaks for error lines.
        text = _JSON_TOKENS.sub(
            lambda found: found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0]), text
        )

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise _Duplicate(twice)
        return keys

    def refuse_constant(constant: str) -> Any:
        raise _refuse(name, f"{constant} is not JSON", hint="write a number", code="not_json")

    def bounded_int(digits: str) -> int:
        if len(digits) > 19:
            raise _refuse(name, "has a number with more than 19 digits", code="number")
        return int(digits)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse_constant, parse_int=bounded_int)
    except _Duplicate as error:
        key = str(error)
        raise _refuse(
            name, f"the key {key!r} stands twice", hint="keep one of them", path=key, code="duplicate_key"
        ) from None
    except json.JSONDecodeError as error:
        raise _refuse(name, f"is not JSON: {error.msg}", line=error.lineno, code="malformed") from None
    except RecursionError:
        raise _refuse(name, f"is nested deeper than {MAX_DEPTH} levels", code="too_deep") from None
    _check_size(name, value)
    return Document(name, value)


def _check_size(name: str, value: Any) -> None:
    count = 0
    layer: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        following: list[Any] = []
        for item in layer:
            count += 1
            if isinstance(item, dict):
                following.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                following.extend(cast("list[Any]", item))
        if count > MAX_VALUES:
            raise _refuse(name, f"holds more than {MAX_VALUES:,} values", code="too_many_values")
        if not following:
            return
        layer = following
    raise _refuse(name, f"is nested deeper than {MAX_DEPTH} levels", code="too_deep")


# --- Python ---------------------------------------------------------------------------------------------------------
# A manifest.py is read, never run: one assignment of literals counts, anything computed is refused with its line.

MANIFEST_VARIABLE = "PLUGIN_MANIFEST"


def _parse_python(name: str, text: str) -> Document:
    module = parse_python_source(name, text)
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=variable)], value=node) if variable == MANIFEST_VARIABLE:
                pass
            case ast.AnnAssign(target=ast.Name(id=variable), value=ast.expr() as node) if variable == MANIFEST_VARIABLE:
                pass
            case _:
                continue
        lines: dict[Path, int] = {}
        value = literal(name, node, (), lines)
        _check_size(name, value)
        return Document(name, value, lines)
    raise _refuse(
        name, f"does not assign {MANIFEST_VARIABLE}", hint=f"write {MANIFEST_VARIABLE} = {{…}}", code="missing"
    )


def parse_python_source(name: str, text: str) -> ast.Module:
    """The syntax tree of a source file that is never executed.

    Raises:
        Invalid: not Python, or nested beyond what the parser takes.
    """
    try:
        return ast.parse(text, name)
    except SyntaxError as error:
        raise _refuse(name, f"is not Python: {error.msg}", line=error.lineno, code="malformed") from None
    except (RecursionError, MemoryError, ValueError):
        raise _refuse(name, f"is nested deeper than {MAX_DEPTH} levels", code="too_deep") from None


def literal(name: str, node: ast.expr, path: Path = (), lines: dict[Path, int] | None = None) -> Any:
    """The value of a literal expression.

    Raises:
        Invalid: anything in it is computed; says on which line.
    """
    if len(path) > MAX_DEPTH:
        raise _refuse(name, f"is nested deeper than {MAX_DEPTH} levels", line=node.lineno, code="too_deep")
    if lines is not None:
        lines.setdefault(path, node.lineno)
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if not isinstance(
            number, bool
        ):
            return -number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [literal(name, item, (*path, index), lines) for index, item in enumerate(items)]
        case ast.Dict(keys=keys, values=values):
            result: dict[str, Any] = {}
            for key, item in zip(keys, values, strict=True):
                if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                    raise _refuse(
                        name,
                        "a key is not literal text",
                        line=(key or node).lineno,
                        path=join_path(path),
                        code="computed",
                    )
                if key.value in result:
                    raise _refuse(
                        name,
                        f"the key {key.value!r} stands twice",
                        hint="keep one of them",
                        line=key.lineno,
                        path=join_path((*path, key.value)),
                        code="duplicate_key",
                    )
                result[key.value] = literal(name, item, (*path, key.value), lines)
            return result
        case _:
            raise _refuse(
                name,
                f"is computed ({type(node).__name__.lower()}), and a manifest is read without running it",
                hint="write the value out as a literal",
                line=node.lineno,
                path=join_path(path),
                code="computed",
            )
