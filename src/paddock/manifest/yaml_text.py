"""YAML to plain values.

The values are built from parser events, not by a loader: that is where aliases (which can blow up exponentially),
depth, tags and duplicate keys can be refused before any memory is spent on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from paddock.core.schema import join_path
from paddock.manifest.document import MAX_DEPTH, MAX_DIGITS, MAX_VALUES, Document, Path, refused, too_deep, twice

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)")
_TAGS = {"scalar": "tag:yaml.org,2002:str", "sequence": "tag:yaml.org,2002:seq", "mapping": "tag:yaml.org,2002:map"}


def plain_scalar(text: str) -> Any:
    """What an unquoted YAML scalar means (YAML 1.2: `no` is a word, not false).

    `1.2.3`, `1_000`, `0123`, `0x1F` and `.inf` stay words. A number that others could not hold comes back as
    infinity, which the reader refuses.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text) if len(text) <= MAX_DIGITS else float("inf")
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def parse_yaml(name: str, text: str) -> Document:
    """One YAML document, without aliases, tags or merge keys.

    Raises:
        Invalid: it is not that.
    """
    import yaml

    builder = _Builder(name)
    documents = 0
    try:
        for event in cast("Iterator[Any]", yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):  # pyright: ignore[reportUnknownMemberType]
            line = event.start_mark.line + 1
            match event:  # the frequent ones first
                case yaml.ScalarEvent():
                    builder.scalar(event, line)
                case yaml.SequenceStartEvent():
                    _check_tag(name, event.tag, "sequence", line)
                    builder.open([], line)
                case yaml.MappingStartEvent():
                    _check_tag(name, event.tag, "mapping", line)
                    builder.open({}, line)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    builder.close()
                case yaml.AliasEvent():
                    raise refused(
                        name, "uses an alias", hint="write the value out; aliases are not read", line=line, code="alias"
                    )
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        hint = "keep one; remove the second '---'"
                        raise refused(name, "holds more than one document", hint=hint, line=line, code="many_documents")
                case _:
                    pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "malformed"
        raise refused(name, f"is not YAML: {what}", line=mark.line + 1 if mark else None, code="malformed") from None
    except RecursionError:
        raise too_deep(name) from None
    lines = builder.lines
    return Document(name, builder.root, lambda: lines)


def _check_tag(name: str, tag: str | None, kind: str, line: int) -> None:
    if tag is not None and tag not in ("!", _TAGS[kind]):
        raise refused(name, f"uses the tag {tag[:80]!r}", hint="only plain values are read", line=line, code="tag")


class _Builder:
    """Grows one document from parser events, without recursion."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: dict[Path, int] = {}
        self.root: Any = None
        self._open: list[tuple[Any, Path]] = []
        self._key: list[str | None] = []
        self._count = 0

    def scalar(self, event: Any, line: int) -> None:
        _check_tag(self._name, event.tag, "scalar", line)
        text: str = event.value
        plain = event.implicit[0] and event.tag is None
        if self._wants_key():
            self._take_key(text, line, plain=plain)
            return
        value = plain_scalar(text) if plain else text
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise refused(
                self._name,
                f"the number {text[:40]} is too large",
                hint="write a smaller one, or text in quotes",
                line=line,
                code="number",
            )
        self._place(value, line)

    def open(self, value: Any, line: int) -> None:
        """Begin a list or mapping; what follows goes into it until `close`."""
        if self._wants_key():
            path = join_path(self._open[-1][1])
            raise refused(self._name, "a key must be text", line=line, path=path, code="bad_key")
        if len(self._open) >= MAX_DEPTH:
            raise too_deep(self._name, line)
        path = self._place(value, line)
        self._open.append((value, path))
        self._key.append(None)

    def close(self) -> None:
        self._open.pop()
        self._key.pop()

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1][0], dict) and self._key[-1] is None

    def _place(self, value: Any, line: int) -> Path:
        self._count += 1
        if self._count > MAX_VALUES:
            raise refused(self._name, f"holds more than {MAX_VALUES:,} values", line=line, code="too_many_values")
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
                path = (*parent_path, cast("str", key))
                parent[key] = value
                self._key[-1] = None
        self.lines.setdefault(path, line)
        return path

    def _take_key(self, key: str, line: int, *, plain: bool) -> None:
        parent, parent_path = self._open[-1]
        if plain and key in _NULL:
            path = join_path(parent_path)
            raise refused(self._name, "a key must be text", line=line, path=path, code="bad_key")
        if plain and key == "<<":
            hint = "write the fields out"
            raise refused(
                self._name, "uses a merge key", hint=hint, line=line, path=join_path(parent_path), code="merge"
            )
        if key in parent:
            raise twice(self._name, key, join_path((*parent_path, key)), line)
        self._key[-1] = key
        self.lines[(*parent_path, key)] = line
