"""Parses JSON into plain values, including the editors' variant with comments and trailing commas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from paddock.core.schema.compile import join_path
from paddock.manifest.syntax.document import (
    MAX_DIGITS,
    MAX_VALUES,
    LineNumbers,
    ParsedDocument,
    ValuePath,
    check_size,
    duplicate_key_error,
    invalid_file_error,
    too_deep_error,
)

# No alternative backtracks, so that every text is scanned in linear time.
TOKEN = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'  # a string, closed or not
    r"|//[^\n]*+"
    r"|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)"
    r"|[{}\[\],:]"
    r'|[^\s{}\[\],:"/]++|/',  # a number, a literal, or an invalid token
    re.DOTALL,
)


# Settings of MCP clients. Editors allow comments in them, whatever the file name.
SERVER_LIST_KEY = re.compile(r'"(?:mcpServers|servers|context_servers)"')


class _DuplicateKey(ValueError):
    pass


def parse_json(name: str, text: str, max_values: int = MAX_VALUES) -> ParsedDocument:
    """Parse one JSON value without duplicate keys.

    Raises:
        Invalid: it is not that.
    """
    if name.endswith("mcp.json") or SERVER_LIST_KEY.search(text):
        text = _strip_comments(text)

    def refuse_constant(constant: str) -> Any:
        raise invalid_file_error(name, f"{constant} is not JSON", hint="write a number", code="not_json")

    def bounded_int(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise invalid_file_error(name, f"has a number with more than {MAX_DIGITS} digits", code="number")
        return int(digits)

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise invalid_file_error(name, f"the number {digits[:40]} is too large", code="number")
        return number

    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_object,
            parse_constant=refuse_constant,
            parse_int=bounded_int,
            parse_float=finite,
        )
    except _DuplicateKey as error:
        path, line = _first_duplicate(text, str(error))
        raise duplicate_key_error(name, str(error), path, line) from None
    except json.JSONDecodeError as error:
        raise invalid_file_error(name, f"is not JSON: {error.msg}", line=error.lineno, code="malformed") from None
    except RecursionError:
        raise too_deep_error(name) from None
    check_size(name, value, max_values)
    return ParsedDocument(name, value, cache(lambda: _line_numbers(text)))


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return keys


def _strip_comments(text: str) -> str:
    """Remove comments and trailing commas; everything else stays on its line."""
    output: list[str] = []
    comma: int | None = None
    end = 0
    for match in TOKEN.finditer(text):
        lexeme = match[0]
        output.append(text[end : match.start()])
        end = match.end()
        if lexeme.startswith(("//", "/*")):
            output.append(" " + "\n" * lexeme.count("\n"))
            continue
        if comma is not None and lexeme in ("}", "]"):
            output[comma] = " "
        output.append(lexeme)
        comma = len(output) - 1 if lexeme == "," else None
    output.append(text[end:])
    return "".join(output)


def _paths_with_lines(text: str) -> Iterator[tuple[ValuePath, int]]:
    """Yield every path of a JSON text, with the line where its key or list item begins."""
    line, end = 1, 0
    path: list[str | int] = []
    kinds: list[str] = []
    expecting_key = False  # a key, in an object
    yield (), 1
    for match in TOKEN.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        lexeme = match[0]
        if lexeme in ("}", "]"):
            kinds.pop()
            path.pop()
            expecting_key = False
        elif lexeme == ",":
            expecting_key = kinds[-1] == "{"
            if not expecting_key:
                path[-1] = int(path[-1]) + 1
        elif lexeme != ":":
            if expecting_key:
                path[-1] = json.loads(lexeme, strict=False)
                yield tuple(path), line
                expecting_key = False
                continue
            if kinds and kinds[-1] == "[":
                yield tuple(path), line
            if lexeme in ("{", "["):
                kinds.append(lexeme)
                path.append("" if lexeme == "{" else 0)
                expecting_key = lexeme == "{"


def value_spans(text: str) -> dict[ValuePath, tuple[int, int]]:
    """Return the span of each object and list of a JSON text: from its opening bracket past its closing one.

    The text must be one that `parse_json` accepts; it may contain comments.
    """
    spans: dict[ValuePath, tuple[int, int]] = {}
    path: list[str | int] = []
    opened: list[tuple[str, int]] = []
    expecting_key = False  # a key, in an object
    for match in TOKEN.finditer(text):
        lexeme = match[0]
        if lexeme.startswith(("//", "/*")) or lexeme == ":":
            continue
        if lexeme in ("}", "]"):
            path.pop()
            spans[tuple(path)] = (opened.pop()[1], match.end())
            expecting_key = False
        elif lexeme == ",":
            expecting_key = opened[-1][0] == "{"
            if not expecting_key:
                path[-1] = int(path[-1]) + 1
        elif expecting_key and lexeme.startswith('"'):
            path[-1] = json.loads(lexeme, strict=False)
            expecting_key = False
        elif lexeme in ("{", "["):
            opened.append((lexeme, match.start()))
            path.append("" if lexeme == "{" else 0)
            expecting_key = lexeme == "{"
    return spans


def _line_numbers(text: str) -> LineNumbers:
    lines: dict[ValuePath, int] = {}
    for path, line in _paths_with_lines(text):
        lines.setdefault(path, line)
    return lines


def _first_duplicate(text: str, key: str) -> tuple[str, int | None]:
    seen: set[ValuePath] = set()
    try:
        for path, line in _paths_with_lines(text):
            if path in seen and path[-1] == key:
                return join_path(path), line
            seen.add(path)
    except (ValueError, IndexError):  # malformed after the position where the parser stopped
        pass
    return join_path((key,)), None
