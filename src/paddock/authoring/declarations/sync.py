"""Writes the declarations of a program into the files that repeat them: paddock.yaml and package.json."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.authoring.declarations.compare import Comparison, compare_declarations
from paddock.authoring.declarations.describe import describe_program, may_describe_itself
from paddock.core.action import Action
from paddock.core.errors import Invalid, OperatorError, Problem
from paddock.manifest.model import Manifest
from paddock.manifest.read import read_package
from paddock.manifest.syntax.yaml_editor import EntryChange, edit_manifest
from paddock.plugins.store.lookup import load_schema

MANIFEST_FILE = "paddock.yaml"
PACKAGE_FILE = "package.json"
_PACKAGE_VERSION = re.compile(r'("version"\s*:\s*)"[^"\\]*"')


class SyncResult(Struct, frozen=True):
    """The changes that a sync made."""

    manifest: Manifest
    version: str | None
    changes: tuple[EntryChange, ...]
    files: tuple[str, ...]

    def undeclared_effects(self) -> list[str]:
        """Return the new entries, whose effects only their author knows."""
        known = {spec.name for spec in self.manifest.callables}
        return [change.name for change in self.changes if change.fields is not None and change.name not in known]


async def sync_folder(folder: Path) -> SyncResult:
    """Write what the program of a folder declares into its manifest, which keeps its comments and everything else.

    Raises:
        Invalid: the manifest has mistakes, or a declaration is incomplete; carries all of them. Nothing was written.
        OperatorError: the program does not describe itself, or a file cannot be written.
        PluginError: the program does not run.
    """
    manifest = read_package(folder).single()
    comparison = await compare_folder(folder, manifest, folder)
    if comparison is None:
        raise OperatorError(
            f"{manifest.name} does not describe its tools: its manifest is their declaration",
            code="sync.nothing_to_read",
            hint="only programs with a native manifest and our SDK for Python or TypeScript are synced",
        )
    if comparison.refusals:
        raise Invalid(f"{manifest.name} cannot be synced", comparison.refusals, code="sync.refused")
    contents = _new_contents(folder, manifest, comparison)
    for name, text in contents.items():
        _write(folder / name, text)
    return SyncResult(manifest, comparison.version, comparison.changes, tuple(contents))


async def compare_folder(folder: Path, manifest: Manifest, source: Path) -> Comparison | None:
    """Compare the files of a folder with its program; None if the program does not describe itself.

    Args:
        folder: The folder to read and run.
        manifest: Its manifest.
        source: The author's folder, for the command that removes the differences.

    Raises:
        PaddockError: the program does not run, or its declarations cannot be read.
    """
    if not may_describe_itself(manifest):
        return None
    program = await describe_program(folder, manifest)
    if program is None:
        return None
    comparison = compare_declarations(manifest, program, lambda schema: load_schema(schema, folder))
    version = program.version or manifest.version
    written = _package_version(folder)
    problems = list(comparison.problems)
    if written not in (None, version):
        message = f"is {written}, and the version of the plugin is {version}"
        problems.append(Problem(f"{PACKAGE_FILE}: version", message, code="sync.version"))
    if problems and not comparison.refusals:  # one command removes all of them
        problems[-1] = replace(problems[-1], action=Action.of("plugin.sync", path=str(source)))
    return replace(comparison, problems=tuple(problems))


def _new_contents(folder: Path, manifest: Manifest, comparison: Comparison) -> dict[str, str]:
    """Return the new texts of the files that change."""
    contents: dict[str, str] = {}
    if comparison.changes or comparison.version is not None:
        text = (folder / MANIFEST_FILE).read_text(encoding="utf-8")
        contents[MANIFEST_FILE] = edit_manifest(text, comparison.changes, comparison.version)
    version = comparison.version or manifest.version
    if _package_version(folder) not in (None, version):
        package = (folder / PACKAGE_FILE).read_text(encoding="utf-8")
        contents[PACKAGE_FILE] = _PACKAGE_VERSION.sub(lambda match: match[1] + json.dumps(version), package, count=1)
    return contents


def _package_version(folder: Path) -> str | None:
    """Return the version in package.json, if it is written where it can be replaced."""
    try:
        text = (folder / PACKAGE_FILE).read_text(encoding="utf-8")
        package: Any = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    version = cast("dict[str, Any]", package).get("version") if isinstance(package, dict) else None
    found = _PACKAGE_VERSION.search(text)
    if not isinstance(version, str) or found is None or not found[0].endswith(json.dumps(version)):
        return None
    return version


def _write(path: Path, text: str) -> None:
    """Replace a file in one step: a full disk or a kill leaves the old one.

    Raises:
        OperatorError: it cannot be written.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(path.stat().st_mode & 0o777)
        Path(temporary).replace(path.resolve())
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OperatorError(
            f"{path} cannot be written: {error.strerror or error}", code="sync.unwritable", hint="nothing was changed"
        ) from error
