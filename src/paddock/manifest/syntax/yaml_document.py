"""Parses YAML into plain values.

The values are built from parser events, not by a loader, so that aliases (which can grow exponentially), depth, tags
and duplicate keys are refused before any memory is spent on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from paddock.core.schema.compile import join_path
from paddock.manifest.syntax.document import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    ParsedDocument,
    ValuePath,
    duplicate_key_error,
    invalid_file_error,
    too_deep_error,
)

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)")
_NUMBER_STARTS = frozenset("+-.0123456789")
_INFINITE = (float("inf"), float("-inf"))
_TAGS = {"scalar": "tag:yaml.org,2002:str", "sequence": "tag:yaml.org,2002:seq", "mapping": "tag:yaml.org,2002:map"}


def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted YAML scalar (YAML 1.2: `no` is a string, not false).

    `1.2.3`, `1_000`, `0123`, `0x1F` and `.inf` stay strings. A number too large for other parsers becomes infinity,
    which the reader refuses.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return int(text) if len(text) <= MAX_DIGITS else float("inf")
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def parse_yaml(name: str, text: str) -> ParsedDocument:
    """Parse one YAML document without aliases, tags or merge keys.

    Raises:
        Invalid: it is not that.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _DocumentBuilder(name)
    try:
        parser = loader(text)
        try:
            builder.build(parser.get_event, yaml)
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or getattr(error, "reason", None) or "malformed"
        raise invalid_file_error(
            name, f"is not YAML: {message}", line=mark.line + 1 if mark else None, code="malformed"
        ) from None
    except RecursionError:
        raise too_deep_error(name) from None
    return ParsedDocument(name, builder.root, cache(builder.lines))


class _DocumentBuilder:
    """Builds one document from parser events, without recursion.

    Line numbers are collected beside every list and mapping; paths are computed from them only on demand.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.root: Any = None
        self._first_line = 1
        self._lines_in: dict[int, Any] = {}  # a container's id -> lines by key, or a list of lines

    def build(self, next_event: Callable[[], Any], yaml: Any) -> None:
        """Consume all events.

        One loop over plain variables: it runs for each value of each manifest, where calls would cost more than the
        work.
        """
        scalar_event, mapping_event, sequence_event = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent
        end_events = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
        parents: list[tuple[Any, Any, bool]] = []  # the open outer containers
        container: Any = None  # the innermost open container
        lines: Any = None  # the lines of its items
        mapping = False  # whether it is a mapping
        key: str | None = None  # the key whose value comes next
        count = documents = 0
        while (event := next_event()) is not None:
            kind: Any = type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind in end_events:
                container, lines, mapping = parents.pop()
                continue
            if kind is scalar_event:
                value: Any = event.value
                plain = event.tag is None and event.implicit[0]
                if event.tag is not None:
                    _check_tag(self._name, event.tag, "scalar", event.start_mark.line + 1)
                if mapping and key is None:
                    line = event.start_mark.line + 1
                    self._check_key(value, container, line, plain=plain)
                    key = value
                    lines[key] = line
                    continue
                if plain:
                    value = plain_scalar(value)
                    if type(value) is float and value in _INFINITE:
                        raise invalid_file_error(
                            self._name,
                            f"the number {event.value[:40]} is too large",
                            hint="write a smaller one, or text in quotes",
                            line=event.start_mark.line + 1,
                            code="number",
                        )
            elif kind is mapping_event or kind is sequence_event:
                line = event.start_mark.line + 1
                _check_tag(self._name, event.tag, "mapping" if kind is mapping_event else "sequence", line)
                if mapping and key is None:
                    raise invalid_file_error(
                        self._name,
                        "a key must be text",
                        line=line,
                        path=join_path(self._path_of(container)),
                        code="bad_key",
                    )
                if len(parents) >= MAX_DEPTH:
                    raise too_deep_error(self._name, line)
                value = {} if kind is mapping_event else []
            elif kind is yaml.AliasEvent:
                hint = "write the value out; aliases are not read"
                raise invalid_file_error(
                    self._name, "uses an alias", hint=hint, line=event.start_mark.line + 1, code="alias"
                )
            else:
                documents += kind is yaml.DocumentStartEvent
                if documents > 1:
                    hint = "keep one; remove the second '---'"
                    line = event.start_mark.line + 1
                    raise invalid_file_error(
                        self._name, "holds more than one document", hint=hint, line=line, code="many_documents"
                    )
                continue

            count += 1
            if count > MAX_VALUES:
                line = event.start_mark.line + 1
                raise invalid_file_error(
                    self._name, f"holds more than {MAX_VALUES:,} values", line=line, code="too_many_values"
                )
            if container is None:
                self.root = value
                self._first_line = event.start_mark.line + 1
            elif key is not None:
                container[key] = value
                key = None
            else:
                container.append(value)
                lines.append(event.start_mark.line + 1)
            if kind is not scalar_event:
                parents.append((container, lines, mapping))
                mapping = kind is mapping_event
                container, lines = value, {} if mapping else []
                self._lines_in[id(value)] = lines

    def lines(self) -> dict[ValuePath, int]:
        """Return the line where each path begins."""
        lines_by_path: dict[ValuePath, int] = {(): self._first_line}
        pending: list[tuple[ValuePath, Any]] = [((), self.root)]
        while pending:
            path, value = pending.pop()
            lines = self._lines_in.get(id(value))
            if lines is None:
                continue
            for step, inner in _child_entries(value):
                lines_by_path[(*path, step)] = lines[step]
                pending.append(((*path, step), inner))
        return lines_by_path

    def _path_of(self, container: Any) -> ValuePath:
        """Return the path of a container that is being read."""
        pending: list[tuple[ValuePath, Any]] = [((), self.root)]
        while pending:
            path, value = pending.pop()
            if value is container:
                return path
            if id(value) in self._lines_in:
                pending += [((*path, step), inner) for step, inner in _child_entries(value)]
        return ()

    def _check_key(self, key: str, parent: Any, line: int, *, plain: bool) -> None:
        if plain and key in _NULL:
            raise invalid_file_error(
                self._name, "a key must be text", line=line, path=join_path(self._path_of(parent)), code="bad_key"
            )
        if plain and key == "<<":
            hint = "write the fields out"
            raise invalid_file_error(
                self._name,
                "uses a merge key",
                hint=hint,
                line=line,
                path=join_path(self._path_of(parent)),
                code="merge",
            )
        if key in parent:
            raise duplicate_key_error(self._name, key, join_path((*self._path_of(parent), key)), line)


def _child_entries(container: Any) -> Iterable[tuple[str | int, Any]]:
    return container.items() if type(container) is dict else enumerate(container)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _check_tag(name: str, tag: str | None, kind: str, line: int) -> None:
    if tag is not None and tag not in ("!", _TAGS[kind]):
        raise invalid_file_error(
            name, f"uses the tag {tag[:80]!r}", hint="only plain values are read", line=line, code="tag"
        )
