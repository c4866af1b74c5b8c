"""JSON to plain values; the editors' kind too, with comments and trailing commas."""

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
    LineNumbers,
    ParsedDocument,
    ValuePath,
    check_size,
    duplicate_key_error,
    invalid_file_error,
    too_deep_error,
)

# Each alternative reads forward only, so that no text makes the scan go over the same place twice.
_TOKEN = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'  # text, closed or not
    r"|//[^\n]*+"
    r"|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)"
    r"|[{}\[\],:]"
    r'|[^\s{}\[\],:"/]++|/',  # a number, a word, or what should not be there
    re.DOTALL,
)


# Settings of programs that speak MCP. Editors let people comment in them, whatever the file is called.
_SERVER_LIST_KEY = re.compile(r'"(?:mcpServers|servers)"')


class _DuplicateKey(ValueError):
    pass


def parse_json(name: str, text: str) -> ParsedDocument:
    """One JSON value without duplicate keys.

    Raises:
        Invalid: it is not that.
    """
    if name.endswith("mcp.json") or _SERVER_LIST_KEY.search(text):
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
    check_size(name, value)
    return ParsedDocument(name, value, cache(lambda: _line_numbers(text)))


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return keys


def _strip_comments(text: str) -> str:
    """The same text without comments and commas before a closing bracket; what is left stays on its line."""
    kept: list[str] = []
    comma: int | None = None
    end = 0
    for found in _TOKEN.finditer(text):
        piece = found[0]
        kept.append(text[end : found.start()])
        end = found.end()
        if piece.startswith(("//", "/*")):
            kept.append(" " + "\n" * piece.count("\n"))
            continue
        if comma is not None and piece in ("}", "]"):
            kept[comma] = " "
        kept.append(piece)
        comma = len(kept) - 1 if piece == "," else None
    kept.append(text[end:])
    return "".join(kept)


def _paths_with_lines(text: str) -> Iterator[tuple[ValuePath, int]]:
    """Every path of a JSON text with the line that its key, or its value in a list, begins on."""
    line, end = 1, 0
    here: list[str | int] = []
    kinds: list[str] = []
    expecting = False  # a key, in an object
    yield (), 1
    for found in _TOKEN.finditer(text):
        line += text.count("\n", end, found.start())
        end = found.start()
        piece = found[0]
        if piece in ("}", "]"):
            kinds.pop()
            here.pop()
            expecting = False
        elif piece == ",":
            expecting = kinds[-1] == "{"
            if not expecting:
                here[-1] = int(here[-1]) + 1
        elif piece != ":":
            if expecting:
                here[-1] = json.loads(piece, strict=False)
                yield tuple(here), line
                expecting = False
                continue
            if kinds and kinds[-1] == "[":
                yield tuple(here), line
            if piece in ("{", "["):
                kinds.append(piece)
                here.append("" if piece == "{" else 0)
                expecting = piece == "{"


def value_spans(text: str) -> dict[ValuePath, tuple[int, int]]:
    """Where each object and list of a JSON text stands, comments or not: from its opening bracket past its closing one.

    The text must be one that `parse_json` takes.
    """
    spans: dict[ValuePath, tuple[int, int]] = {}
    here: list[str | int] = []
    opened: list[tuple[str, int]] = []
    expecting = False  # a key, in an object
    for found in _TOKEN.finditer(text):
        piece = found[0]
        if piece.startswith(("//", "/*")) or piece == ":":
            continue
        if piece in ("}", "]"):
            here.pop()
            spans[tuple(here)] = (opened.pop()[1], found.end())
            expecting = False
        elif piece == ",":
            expecting = opened[-1][0] == "{"
            if not expecting:
                here[-1] = int(here[-1]) + 1
        elif expecting and piece.startswith('"'):
            here[-1] = json.loads(piece, strict=False)
            expecting = False
        elif piece in ("{", "["):
            opened.append((piece, found.start()))
            here.append("" if piece == "{" else 0)
            expecting = piece == "{"
    return spans


def _line_numbers(text: str) -> LineNumbers:
    found: dict[ValuePath, int] = {}
    for path, line in _paths_with_lines(text):
        found.setdefault(path, line)
    return found


def _first_duplicate(text: str, key: str) -> tuple[str, int | None]:
    seen: set[ValuePath] = set()
    try:
        for path, line in _paths_with_lines(text):
            if path in seen and path[-1] == key:
                return join_path(path), line
            seen.add(path)
    except (ValueError, IndexError):  # malformed after the place where the parser stopped
        pass
    return join_path((key,)), None
