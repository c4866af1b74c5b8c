"""Edits a JSON object in its text: what is not edited keeps its format and its comments. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from msgspec import Struct

from paddock.manifest.syntax.json_document import TOKEN

_INDENTATION = re.compile(r"\n([ \t]+)\S")


class _Member(Struct, frozen=True):
    key: str
    start: int  # of the key
    end: int  # past the value
    comma: int | None  # the comma after it


def replace_members(text: str, offset: int, removed: Container[str], key: str, value: Any) -> str:
    """Remove members of an object, and write one in their place.

    Args:
        text: A JSON text that `parse_json` accepts; it may contain comments.
        offset: Where the object's opening bracket is.
        removed: The keys to remove; the object has at least one of them, or the new key.
        key, value: The new member. It replaces a member of that name, or else the first that is removed.
    """
    members = _members(text, offset)
    target = next((one for one in members if one.key == key), None)
    target = target or next(one for one in members if one.key in removed)
    kept = [one for one in members if one is target or one.key not in removed]
    formatted = _format_value(text, offset, target, value)
    edits = [(target.start, target.end, f"{json.dumps(key, ensure_ascii=False)}: {formatted}")]
    edits += [(*_deleted_span(text, one), "") for one in members if one not in kept]
    if members[-1] not in kept and members[-1].comma is None and kept[-1].comma is not None:
        edits.append((kept[-1].comma, kept[-1].comma + 1, ""))  # it would be a trailing comma now
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _members(text: str, offset: int) -> list[_Member]:
    members: list[_Member] = []
    depth, key, start, end = 0, "", -1, -1
    for match in TOKEN.finditer(text, offset):
        lexeme = match[0]
        if lexeme.startswith(("//", "/*")):
            continue
        if lexeme in ("{", "["):
            depth += 1
        elif lexeme in ("}", "]"):
            depth -= 1
            if depth == 0:
                break
        elif depth == 1 and lexeme == ",":
            members.append(_Member(key, start, end, match.start()))
            start = -1
            continue
        if depth == 1 and start < 0 and lexeme.startswith('"'):
            key, start = json.loads(lexeme, strict=False), match.start()
        end = match.end()
    return [*members, _Member(key, start, end, None)] if start >= 0 else members


def _deleted_span(text: str, member: _Member) -> tuple[int, int]:
    """Return what to delete for a member: whole lines if nothing else is on them."""
    start, end = member.start, member.end if member.comma is None else member.comma + 1
    line_start = text.rfind("\n", 0, start) + 1
    after = len(text) if (newline := text.find("\n", end)) < 0 else newline + 1
    if line_start and not text[line_start:start].strip() and not text[end:after].strip():
        return line_start, after
    while end < len(text) and text[end] in " \t":
        end += 1
    return start, end


def _format_value(text: str, offset: int, target: _Member, value: Any) -> str:
    """Format a value like the surrounding text: on one line, or with its indentation step from the key's line."""
    if "\n" not in text[offset : target.end]:
        return json.dumps(value, ensure_ascii=False)
    indent = match[1] if (match := _INDENTATION.search(text)) else "  "
    line = text[text.rfind("\n", 0, target.start) + 1 : target.start]
    line_indent = line[: len(line) - len(line.lstrip())]
    newline = "\r\n" if "\r\n" in text else "\n"
    return json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", f"{newline}{line_indent}")
