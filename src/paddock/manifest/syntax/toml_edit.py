"""Edits the tables of a TOML text: what is not edited keeps its format and its comments. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct

# No alternative backtracks, so that every text is scanned in linear time.
_TOKEN = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
    r"|#[^\n]*+"
    r"|[\[\]{}]",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

TablePath = tuple[str, ...]


class _Table(Struct, frozen=True):
    """A table with a header of its own."""

    path: TablePath
    start: int  # of the header's line
    end: int  # past the last line that is not empty or a comment


def replace_tables(text: str, is_removed: Callable[[TablePath], bool], inserted: str) -> str:
    """Remove the selected tables, and write others in place of the first of them. Comments between tables stay."""
    removed = [table for table in _find_tables(text) if is_removed(table.path)]
    for index, table in reversed(list(enumerate(removed))):
        text = (
            text[: table.start]
            + (inserted if index == 0 else "")
            + text[table.end :].removeprefix("\n" if index else "")
        )
    return text


def select_tables(text: str, is_selected: Callable[[TablePath], bool]) -> str:
    """Return the text of the selected tables."""
    tables = [text[table.start : table.end].rstrip("\n") for table in _find_tables(text) if is_selected(table.path)]
    return "\n\n".join(tables) + "\n" if tables else ""


def format_table(path: TablePath, values: Mapping[str, Any]) -> str:
    """Return a table of texts, lists of texts, and mappings of texts."""
    lines = [f"[{'.'.join(map(_format_key, path))}]"]
    lines += [f"{_format_key(key)} = {_format_value(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{ " + ", ".join(f"{_format_key(key)} = {_format_value(item)}" for key, item in items) + " }"
    return json.dumps(value, ensure_ascii=False)


def _find_tables(text: str) -> list[_Table]:
    headers: list[tuple[int, int]] = []
    depth, start = 0, -1
    content_ends: list[int] = []
    for match in _TOKEN.finditer(text):
        if match[0].startswith("#"):
            continue
        line_start = text.rfind("\n", 0, match.start()) + 1
        if match[0] == "[" and depth == 0 and not text[line_start : match.start()].strip():
            start = line_start
        if match[0] in ("[", "{"):
            depth += 1
        elif match[0] in ("]", "}"):
            depth -= 1
            if depth == 0 and start >= 0:
                headers.append((start, match.end()))
                start = -1
        content_ends.append(match.end())
    tables: list[_Table] = []
    for index, (start, end) in enumerate(headers):
        limit = headers[index + 1][0] if index + 1 < len(headers) else len(text)
        inner = content_ends[bisect_right(content_ends, limit) - 1]
        tables.append(_Table(_header_path(text[start:end]), start, _content_end(text, inner, limit)))
    return tables


def _content_end(text: str, offset: int, limit: int) -> int:
    """Return the end of the last line before `limit` that has more than a comment; the line of `offset` has."""
    position = end = (text.find("\n", offset, limit) + 1) or limit
    while position < limit:
        following = (text.find("\n", position, limit) + 1) or limit
        line = text[position:following].strip()
        if line and not line.startswith("#"):
            end = following
        position = following
    return end


def _header_path(header: str) -> TablePath:
    value: Any = tomllib.loads(header)
    path: list[str] = []
    while value:
        if isinstance(value, list):
            value = cast("list[Any]", value)[0]
        else:
            key, value = next(iter(cast("dict[str, Any]", value).items()))
            path.append(key)
    return tuple(path)
