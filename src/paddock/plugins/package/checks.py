"""Reads the manifest of a staged package and rejects refused imports.

A repository with several plugins looks like a package at first. If the root has no manifest, the error lists the
folders that have one, because the person is only one step away from what they want.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import paddock
from paddock.core.errors import Invalid, Problem
from paddock.core.printable import MAX_PATH_CHARS, printable
from paddock.manifest.model import Manifest, PythonRuntime
from paddock.manifest.read import FILE_NAMES, DirectoryFiles, ManifestResult, read_package
from paddock.manifest.server_file.server_file import LANGUAGE_SUFFIXES
from paddock.manifest.syntax.python_source import find_refused_imports
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import StagedPackage

_MAX_FOLDERS_SCANNED = 500
_MAX_FOLDERS_LISTED = 10
_SERVER_STEMS = frozenset({"app", "index", "main", "mcp_server", "server"})


def read_staged_manifest(staged: StagedPackage) -> ManifestResult:
    """Read the manifest of a staged package; errors name the source as the person typed it.

    Raises:
        Invalid: there is no manifest, or it cannot be parsed at all.
    """
    try:
        return read_package(staged.root)
    except Invalid as error:
        if error.error_code != "manifest.missing":
            raise
        source = staged.source.source
        name = printable(_source_label(source), MAX_PATH_CHARS)
        folders = sorted(folders_with_manifests(staged.root))
        nested_problem = Problem(
            "",
            "there is none at its top, but there are plugins below it",
            _missing_manifest_hint(source, folders),
            "missing",
        )
        server = next(iter(sorted(_server_files(staged.root))), "")
        server_problem = Problem("", "there is none at its top, but a program", _server_hint(source, server), "missing")
        problems = [nested_problem] if folders else [server_problem] if server else error.problems
        raise Invalid(f"{name} holds no manifest", problems, code=error.error_code) from None


def folders_with_manifests(root: Path) -> Iterator[str]:
    """Yield the subfolders that have a manifest, one or two levels down; links are not followed."""
    outer = list(islice(_subfolders(root), _MAX_FOLDERS_SCANNED))
    for folder in outer:
        if DirectoryFiles(root / folder).existing(FILE_NAMES):
            yield folder
        else:
            inner = (
                f"{folder}/{name}"
                for name in islice(_subfolders(root / folder), _MAX_FOLDERS_SCANNED // len(outer) + 1)
            )
            yield from (path for path in inner if DirectoryFiles(root / path).existing(FILE_NAMES))


def _server_files(root: Path) -> Iterator[str]:
    """Yield the files at the top that may be an MCP server, by their names."""
    for file in root.iterdir():
        if file.stem in _SERVER_STEMS and file.suffix in LANGUAGE_SUFFIXES and file.is_file():
            yield file.name


def _server_hint(source: PackageSource, server: str) -> str:
    if source.kind is SourceKind.DIRECTORY:
        return f"if {server} is an MCP server, name the file: {printable(source.location)}/{server}"
    return f"if {server} is an MCP server, take it apart first, then name that file"


def _subfolders(root: Path) -> list[str]:
    try:
        return sorted(one.name for one in os.scandir(root) if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _source_label(source: PackageSource) -> str:
    return source.location if source.kind is SourceKind.DIRECTORY else source.describe()


def _missing_manifest_hint(source: PackageSource, folders: list[str]) -> str:
    listed = ", ".join(printable(folder) for folder in folders[:_MAX_FOLDERS_LISTED])
    more = f" and {len(folders) - _MAX_FOLDERS_LISTED} more" if len(folders) > _MAX_FOLDERS_LISTED else ""
    if source.kind is SourceKind.DIRECTORY:
        return f"name one of the folders in it: {listed}{more}"
    return f"take it apart first, then name one of the folders in it: {listed}{more}"


MAX_REPORTED_IMPORTS = 50
MAX_SCANNED_FILE_BYTES = 1024 * 1024
# Read as data: the host never imports modules of plugins.
REFUSED_IMPORTS_FILE = Path(paddock.__file__).parents[1] / "paddock_sdk" / "worker" / "refused_imports.json"


def check_imports(manifest: Manifest, root: Path) -> None:
    """Reject a package whose Python code imports modules that plugins of its dialect may not import.

    Raises:
        Invalid: it does; carries every such import with its file and line.
    """
    problems = import_problems(manifest, root)
    if problems:
        raise Invalid(
            f"{manifest.name} imports what a plugin may not", problems[:MAX_REPORTED_IMPORTS], code="import.refused"
        )


def import_problems(manifest: Manifest, root: Path) -> list[Problem]:
    """Return every refused import in the package of a Python plugin; a program of its own may import anything."""
    if not isinstance(manifest.runtime, PythonRuntime):
        return []
    refused = _refused_modules(manifest.dialect.value)
    roots = {name.partition(".")[0] for name in refused}
    problems: list[Problem] = []
    for file in _python_files(root):
        text = file.read_bytes().decode("utf-8", "replace")
        if any(name in text for name in roots):  # most files name none, and parsing costs a thousand times more
            problems += find_refused_imports(file.relative_to(root).as_posix(), text, refused)
    return problems


def _refused_modules(dialect: str) -> dict[str, str]:
    groups: dict[str, Any] = json.loads(REFUSED_IMPORTS_FILE.read_text(encoding="utf-8"))
    applicable = [group for group in groups.values() if dialect in group["dialects"] or "*" in group["dialects"]]
    return {name: group["reason"] for group in applicable for name in group["names"]}


def _python_files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith(".py") and not file.is_symlink() and file.stat().st_size <= MAX_SCANNED_FILE_BYTES:
                yield file
