"""The difference between an installed version and the one that would replace it: its tools and its files, in full.

A person reads it before they consent to an upgrade. Both packages are untrusted, so that every list, text and
comparison is bounded. What is left out is counted.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Struct

from paddock.core.printable import printable
from paddock.manifest.effects import EFFECT_TEXT
from paddock.manifest.model import CallableSpec, Manifest, Schema
from paddock.manifest.permissions import callable_effects
from paddock.plugins.package.tree import PackageTree, TreeFile

_MAX_ENTRIES = 200  # tools, and files
_MAX_LINE_CHARS = 300
_MAX_DIFF_LINES = 200  # of one tool or file
_MAX_TOTAL_LINES = 2_000  # of all of them
_MAX_TEXT_BYTES = 65_536  # larger files are not compared line by line
_MAX_TEXT_LINES = 1_000  # comparing takes quadratic time at worst


class ChangeKind(StrEnum):
    """What happened to a tool or a file."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class ToolChangeJson(TypedDict):
    """A tool that an upgrade adds, removes or changes."""

    name: str
    change: ChangeKind
    parts: Annotated[list[str], "What changed: `description`, `input`, `output`, `effects` …"]
    lines: Annotated[list[str], "The difference, as in a patch; bounded."]


class FileChangeJson(TypedDict):
    """A file that an upgrade adds, removes or changes."""

    path: str
    change: ChangeKind
    old_size: Annotated[int | None, "In bytes."]
    new_size: Annotated[int | None, "In bytes."]
    lines: Annotated[list[str], "Of small text files: the difference, as in a patch; bounded."]


class UpgradeDifferenceJson(TypedDict):
    """What an upgrade changes beside the permissions."""

    tools: list[ToolChangeJson]
    more_tools: Annotated[int, "How many changed tools are not listed."]
    files: list[FileChangeJson]
    more_files: Annotated[int, "How many changed files are not listed."]


class ToolChange(Struct, frozen=True):
    """A tool that an upgrade adds, removes or changes."""

    name: str
    change: ChangeKind
    parts: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


class FileChange(Struct, frozen=True):
    """A file that an upgrade adds, removes or changes; sizes in bytes."""

    path: str
    change: ChangeKind
    old_size: int | None
    new_size: int | None
    lines: tuple[str, ...] = ()


class UpgradeDifference(Struct, frozen=True):
    """What an upgrade changes beside the permissions; `more_` counts what is not listed."""

    tools: tuple[ToolChange, ...] = ()
    files: tuple[FileChange, ...] = ()
    more_tools: int = 0
    more_files: int = 0

    def to_value(self) -> UpgradeDifferenceJson:
        return {
            "tools": [
                {"name": one.name, "change": one.change, "parts": list(one.parts), "lines": list(one.lines)}
                for one in self.tools
            ],
            "more_tools": self.more_tools,
            "files": [
                {
                    "path": one.path,
                    "change": one.change,
                    "old_size": one.old_size,
                    "new_size": one.new_size,
                    "lines": list(one.lines),
                }
                for one in self.files
            ],
            "more_files": self.more_files,
        }


NO_DIFFERENCE = UpgradeDifference()


class ComparedVersion(Struct, frozen=True):
    """One of the two versions: its manifest and files, and how a schema that names a file is read."""

    manifest: Manifest
    root: Path
    tree: PackageTree
    load_schema: Callable[[Schema | None], Any]


def compare_versions(old: ComparedVersion, new: ComparedVersion) -> UpgradeDifference:
    """Compare two versions of a plugin. Reads small text files of both, so do not call it on the event loop."""
    tools, files = list(_tool_changes(old, new)), _file_changes(old, new)
    return UpgradeDifference(
        tuple(tools[:_MAX_ENTRIES]),
        tuple(files[:_MAX_ENTRIES]),
        max(0, len(tools) - _MAX_ENTRIES),
        max(0, len(files) - _MAX_ENTRIES),
    )


def _tool_changes(old: ComparedVersion, new: ComparedVersion) -> Iterator[ToolChange]:
    before = {spec.name: spec for spec in old.manifest.callables}
    after = {spec.name: spec for spec in new.manifest.callables}
    lines_left = _MAX_TOTAL_LINES
    for name in dict.fromkeys([*before, *after]):
        old_facts = _tool_facts(old, before[name]) if name in before else {}
        new_facts = _tool_facts(new, after[name]) if name in after else {}
        parts = tuple(part for part in (new_facts or old_facts) if old_facts.get(part) != new_facts.get(part))
        if not parts:
            continue
        limit = min(lines_left, _MAX_DIFF_LINES)
        lines = _diff_lines(_fact_lines(old_facts, parts), _fact_lines(new_facts, parts), limit)
        lines_left -= len(lines)
        change = (
            ChangeKind.CHANGED if old_facts and new_facts else ChangeKind.ADDED if new_facts else ChangeKind.REMOVED
        )
        yield ToolChange(printable(name, 200), change, parts if change is ChangeKind.CHANGED else (), lines)


def _tool_facts(version: ComparedVersion, spec: CallableSpec) -> dict[str, Any]:
    """Return what a person and a model know of a tool, by part."""
    return {
        "description": "\n".join(filter(None, (spec.title, spec.description))),
        "effects": ", ".join(EFFECT_TEXT[effect] for effect in callable_effects(version.manifest, spec)),
        "approval": "a person approves each call" if spec.requires_approval else "",
        "input": version.load_schema(spec.input_schema),
        "output": version.load_schema(spec.output_schema),
        "hints": dict(spec.annotations),
    }


def _fact_lines(facts: dict[str, Any], parts: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if value := facts.get(part):
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
            lines += [f"{part}:", *text.splitlines()]
    return lines[:_MAX_TEXT_LINES]


def _file_changes(old: ComparedVersion, new: ComparedVersion) -> list[FileChange]:
    before = {file.path: file for file in old.tree.files}
    after = {file.path: file for file in new.tree.files}
    changes: list[FileChange] = []
    lines_left = _MAX_TOTAL_LINES
    for path in sorted({*before, *after}):
        old_file, new_file = before.get(path), after.get(path)
        if old_file == new_file:
            continue
        lines: tuple[str, ...] = ()
        if lines_left > 0 and len(changes) < _MAX_ENTRIES:
            texts = [_read_lines(old.root, old_file), _read_lines(new.root, new_file)]
            lines = _diff_lines(texts[0], texts[1], min(lines_left, _MAX_DIFF_LINES)) if None not in texts else ()
            lines_left -= len(lines)
        change = ChangeKind.CHANGED if old_file and new_file else ChangeKind.ADDED if new_file else ChangeKind.REMOVED
        sizes = (old_file.size if old_file else None, new_file.size if new_file else None)
        changes.append(FileChange(printable(path, 300), change, *sizes, _mode_lines(old_file, new_file) + lines))
    return changes


def _mode_lines(old: TreeFile | None, new: TreeFile | None) -> tuple[str, ...]:
    """Return a line for a file that becomes executable, or is no longer."""
    if old is None or new is None or old.executable == new.executable:
        return ()
    return ("+ it is executable",) if new.executable else ("- it is executable",)


def _read_lines(root: Path, file: TreeFile | None) -> list[str] | None:
    """Return the lines of a small text file; none if there is no file, None if it is not a small text."""
    if file is None:
        return []
    if file.size > _MAX_TEXT_BYTES:
        return None
    try:
        descriptor = os.open(root / file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read(_MAX_TEXT_BYTES + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError):
        return None
    lines = text.splitlines()
    return None if "\0" in text or len(content) > _MAX_TEXT_BYTES or len(lines) > _MAX_TEXT_LINES else lines


def _diff_lines(old: Sequence[str] | None, new: Sequence[str] | None, limit: int) -> tuple[str, ...]:
    """Return a unified diff without its header, at most `limit` lines of it."""
    if old is None or new is None or limit <= 0:
        return ()
    lines: list[str] = []
    for number, line in enumerate(difflib.unified_diff(old, new, n=2, lineterm="")):
        if number < 2:  # the names of the two files
            continue
        if len(lines) == limit:
            lines.append("… and more")
            break
        lines.append(printable(line, _MAX_LINE_CHARS))
    return tuple(lines)
