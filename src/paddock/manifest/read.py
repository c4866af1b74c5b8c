"""Reads a manifest: finds it, detects its dialect, checks it and maps it. Reports all mistakes at once."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import CompiledSchema, compile_trusted, join_path
from paddock.manifest.capability import merge_capabilities
from paddock.manifest.dialects import kaged, kernel, mcp_bundle, mcp_clients, mcp_registry, native, osqr, shu
from paddock.manifest.dialects.detect import detect_dialect
from paddock.manifest.dialects.mcp_server_lists import CLIENT_FORMS, find_server_lists
from paddock.manifest.dialects.mcp_user_config import ImportedServer
from paddock.manifest.model import Manifest
from paddock.manifest.names import slug
from paddock.manifest.package_files import NoFiles, PackageFiles
from paddock.manifest.permissions import check_kind_boundary
from paddock.manifest.result import ManifestResult
from paddock.manifest.rules.field_rules import check_entry_count, is_package_path, warn_unknown
from paddock.manifest.rules.readiness import FETCHED_AT_START, find_blockers
from paddock.manifest.syntax.document import (
    MANIFEST_LIMITS,
    MAX_FILE_BYTES,
    SETTINGS_LIMITS,
    FileLimits,
    ParsedDocument,
    ValuePath,
    invalid_file_error,
)
from paddock.manifest.syntax.fields import MAX_ENTRIES, Fields, ProblemReport
from paddock.manifest.syntax.parse import EMPTY, EMPTY_HINT, parse_document

SCHEMA_DIRECTORY = Path(__file__).parent / "schemas"

# File names of manifests, most specific first.
FILE_NAMES = (
    "paddock.yaml",
    "paddock.yml",
    "kaged-plugin.yaml",
    "kaged-plugin.yml",
    "manifest.py",
    "manifest.yaml",
    "manifest.yml",
    "manifest.json",
    "plugin.yaml",
    "plugin.yml",
    "plugin.json",
    "server.json",
    ".vscode/mcp.json",
    ".mcp.json",
    "mcp.json",
)

_COMMON_FILE_NAMES = ("paddock.yaml", "kaged-plugin.yaml", "manifest.py", "manifest.yaml")


class DirectoryFiles:
    """The files of a package on disk. Links are not followed: nothing outside the package is ever read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, path: str) -> bool:
        try:
            if "/" not in path:  # no folder on the way that could be a link
                return stat.S_ISREG(os.lstat(self._root / path).st_mode)
            os.close(self._open_file(path))
        except (OSError, ValueError, Invalid):
            return False
        return True

    def existing(self, paths: Sequence[str]) -> list[str]:
        """Return the paths that exist. The folder is listed once: most names are not in it."""
        try:
            entries = {entry.name for entry in os.scandir(self._root)}
        except OSError:
            return []
        return [path for path in paths if path.partition("/")[0] in entries and self.exists(path)]

    def read(self, path: str) -> bytes | None:
        try:
            data = _read_bounded(self._open_file(path))
        except (OSError, ValueError, Invalid):
            return None
        return data if len(data) <= MAX_FILE_BYTES else None

    def document(self, path: str) -> ParsedDocument:
        """Parse one file of the package.

        Raises:
            Invalid: it cannot be read or parsed.
        """
        try:
            data = _read_bounded(self._open_file(path))
        except OSError as error:
            raise invalid_file_error(path, error.strerror or "cannot be opened", code="not_a_file") from None
        return parse_document(path, data)

    def module_source(self, module: str) -> tuple[str, str] | None:
        if not all(part.isidentifier() for part in module.split(".")):
            return None
        base = module.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py", f"vendor/{base}.py"):
            data = self.read(path)
            if data is not None:
                return path, data.decode("utf-8", "replace")
        return None

    def _open_file(self, path: str) -> int:
        """Open a regular file without following any link on the way."""
        if not is_package_path(path):
            raise invalid_file_error(path, "is not a path inside the package", code="not_a_file")
        *folders, name = [part for part in path.split("/") if part not in ("", ".")] or ["."]
        directory = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
                os.close(directory)
                directory = inner
            return _require_regular(name, os.open(name, _OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=directory))
        finally:
            os.close(directory)


# Non-blocking: opening a pipe without a writer would otherwise wait for ever.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def _require_regular(name: str, handle: int) -> int:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise invalid_file_error(
        name, "is not a regular file", hint="links, pipes and devices are not read", code="not_a_file"
    )


def _read_bounded(handle: int, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read at most one byte more than a file may have."""
    with os.fdopen(handle, "rb") as file:
        return file.read(max_bytes + 1)


def read_package(root: Path) -> ManifestResult:
    """Read the manifest of a package directory, with a sibling paddock.yaml that may add the program.

    Raises:
        Invalid: there is no manifest, or it cannot be parsed at all.
    """
    files = DirectoryFiles(root)
    names = files.existing(FILE_NAMES) or _single_json_file(root)
    if not names:
        raise _no_manifest_error(root)
    first = files.document(names[0])
    if names[0].startswith("paddock.") and "name" not in Fields(first.value):
        others = [name for name in names if not name.startswith("paddock.")] or _single_json_file(root)
        if others:
            return _read_document(files.document(others[0]), files, first)
    return _read_document(first, files, None)


def _no_manifest_error(root: Path) -> Invalid:
    irregular = next((name for name in FILE_NAMES if os.path.lexists(root / name)), None)
    message = f"{irregular} is not a regular file" if irregular else "no manifest was found"
    hint = "links, pipes and devices are not read" if irregular else f"add one of {', '.join(_COMMON_FILE_NAMES)}, …"
    name = printable(root.name or str(root))
    return Invalid(f"{name} holds no manifest", [Problem("", message, hint, "missing")], code="manifest.missing")


def read_file(path: Path) -> ManifestResult:
    """Read a single manifest file; files it refers to are looked up beside it.

    Raises:
        Invalid: it cannot be parsed at all.
        OSError: it cannot be opened.
    """
    return _read_document(_file_document(path), DirectoryFiles(path.parent), None)


def read_each_server(path: Path) -> list[tuple[str, ManifestResult]]:
    """Read each server of a settings file separately, by its name there: a bad one does not affect the others.

    A file of any other kind gives one result, under its plugin's name.

    Raises:
        Invalid: it cannot be parsed at all.
        OSError: it cannot be opened.
    """
    document = _file_document(path, SETTINGS_LIMITS)
    files = DirectoryFiles(path.parent)
    titles: list[str] = []
    if detect_dialect(document) in CLIENT_FORMS:
        lists = find_server_lists(Fields(document.value), document.name)
        titles = list(dict.fromkeys(title for servers in lists for title in servers.titles))
    if 0 < len(titles) <= MAX_ENTRIES:
        # Names with the same slug are read together, so that they are refused together.
        titles_by_slug: dict[str, set[str]] = {}
        for title in titles:
            titles_by_slug.setdefault(slug(title), set()).add(title)
        return [
            (title, _read_document(document, files, None, titles_by_slug[slug(title)].__contains__)) for title in titles
        ]
    result = _read_document(document, files, None)
    return [(result.plugins[0].manifest.name if result.plugins else document.name, result)]


def _file_document(path: Path, limits: FileLimits = MANIFEST_LIMITS) -> ParsedDocument:
    name = f".vscode/{path.name}" if path.parent.name == ".vscode" else path.name
    handle = _require_regular(name, os.open(path, _OPEN_FLAGS))
    return parse_document(name, _read_bounded(handle, limits.max_bytes), limits)


def read_bytes(name: str, data: bytes, files: PackageFiles | None = None) -> ManifestResult:
    """Read a manifest from memory.

    Raises:
        Invalid: it cannot be parsed at all.
    """
    return _read_document(parse_document(name, data), files or NoFiles(), None)


def read_stored(document: ParsedDocument) -> Manifest:
    """Read a stored manifest in the native dialect, which was checked when it was stored.

    Raises:
        Invalid: it no longer meets the rules.
    """
    report = ProblemReport(document)
    manifest = native.read(Fields(document.value), report)
    return ManifestResult(document.name, native.SCHEMA, (ImportedServer(manifest),), tuple(report.errors), ()).single()


def _single_json_file(root: Path) -> list[str]:
    """Kernel manifests have no fixed name: return the only JSON file at the root, if there is exactly one."""
    try:
        names = sorted(
            entry.name
            for entry in os.scandir(root)
            if entry.name.endswith(".json") and entry.name.isprintable() and entry.is_file(follow_symlinks=False)
        )
    except OSError:
        return []
    return names if len(names) == 1 else []


@cache
def dialect_schema(form: str) -> CompiledSchema:
    """Return the compiled published schema of a dialect."""
    import orjson

    return compile_trusted(orjson.loads((SCHEMA_DIRECTORY / f"{form}.schema.json").read_bytes()))


def known_fields(form: str) -> list[str]:
    """Return the top-level fields that a dialect's published schema describes."""
    return list(Fields(dialect_schema(form).source).within("properties").value)


_DIALECT_READERS: dict[str, Callable[[Fields, ProblemReport, PackageFiles], Manifest]] = {
    native.SCHEMA: lambda fields, report, _: native.read(fields, report),
    kaged.SCHEMA: lambda fields, report, _: kaged.read(fields, report),
    kernel.SCHEMA: lambda fields, report, _: kernel.read(fields, report),
    osqr.SCHEMA: lambda fields, report, _: osqr.read(fields, report),
    shu.SCHEMA: shu.read,
    mcp_bundle.SCHEMA: lambda fields, report, _: mcp_bundle.read(fields, report),
    mcp_registry.SCHEMA: lambda fields, report, _: mcp_registry.read(fields, report),
}


def _read_document(
    document: ParsedDocument,
    files: PackageFiles,
    overlay: ParsedDocument | None,
    select_server: Callable[[str], bool] = lambda _: True,  # which servers of a settings file to read
) -> ManifestResult:
    form = detect_dialect(document)
    report = ProblemReport(document)
    if document.value is None:  # only comments
        report.error((), EMPTY, EMPTY_HINT, "empty")
        return ManifestResult(document.name, form or "", (), tuple(report.errors), ())
    if form is None or form == native.RUNTIME_SCHEMA:
        message = (
            "only adds a program, and there is no manifest beside it" if form else "is no manifest that Paddock knows"
        )
        report.error((), message, "see the manifest reference for the seven dialects", "unknown_dialect")
        return ManifestResult(document.name, form or "", (), tuple(report.errors), ())
    fields = Fields(document.value)
    if form in CLIENT_FORMS:
        lists = [servers.only(select_server) for servers in find_server_lists(fields, document.name)]
        structural = [
            problem
            for servers in [one for one in lists if one.titles] or lists
            for problem in _schema_problems(document, form, servers.holder.value, servers.holder.path)
        ]
        report.add(structural)
        plugins = mcp_clients.read_servers(lists, report)
    else:
        structural = _schema_problems(document, form, document.value)
        report.add(structural)
        check_entry_count(report, fields)
        warn_unknown(report, fields, known_fields(form))
        plugins = [ImportedServer(_DIALECT_READERS[form](fields, report, files))]
    if overlay is not None:
        plugins = [_apply_overlay(plugin, overlay, report) for plugin in plugins]
    for plugin in plugins:
        check_kind_boundary(report, plugin.manifest)
    if not report.errors:
        for plugin in plugins:
            report.warnings.extend(
                _with_import_hint(problem, form) for problem in find_blockers(plugin.manifest, files)
            )
    # Where the schema already reports a path, a rule about the same path adds nothing.
    reported_paths = {problem.path for problem in structural}
    rule_errors = [problem for problem in report.errors[len(structural) :] if problem.path not in reported_paths]
    errors = _unique_problems([*report.errors[: len(structural)], *rule_errors])
    warnings = _unique_problems([problem for problem in report.warnings if problem.path not in reported_paths])
    return ManifestResult(document.name, form, tuple(plugins), _sort_problems(errors), _sort_problems(warnings))


def _with_import_hint(problem: Problem, form: str) -> Problem:
    """Replace the remedy where an import accepts the file, which is the simpler way."""
    if problem.code != FETCHED_AT_START or form not in {*CLIENT_FORMS, mcp_registry.SCHEMA}:
        return problem
    hint = "import the file, which installs that package instead"
    return replace(problem, hint=hint, action=Action.of("plugin.import"))


def _apply_overlay(plugin: ImportedServer, overlay: ParsedDocument, report: ProblemReport) -> ImportedServer:
    """Add the program and the capabilities of a sibling paddock.yaml to the plugin."""
    overlay_report = ProblemReport(overlay)
    fields = Fields(overlay.value)
    report.add(_schema_problems(overlay, native.RUNTIME_SCHEMA, overlay.value))
    manifest = plugin.manifest
    if manifest.runtime is not None and "runtime" in fields:
        overlay_report.error(
            ("runtime",), "the manifest beside it already names a program", "keep one of them", "runtime"
        )
    elif manifest.runtime is None:
        manifest = replace(manifest, runtime=native.read_runtime(overlay_report, fields, manifest.name))
    added = native.read_capabilities(overlay_report, fields, "capabilities")
    report.add(overlay_report.errors)
    report.warnings.extend(overlay_report.warnings)
    start = native.read_start(fields) if "start" in fields else manifest.start
    return dataclasses.replace(
        plugin,
        manifest=replace(manifest, start=start, capabilities=merge_capabilities(manifest.capabilities, added)),
    )


def _sort_problems(problems: list[Problem]) -> tuple[Problem, ...]:
    """Sort by line; problems without a line come last."""
    return tuple(sorted(problems, key=lambda problem: MAX_FILE_BYTES if problem.line is None else problem.line))


def _unique_problems(problems: list[Problem]) -> list[Problem]:
    """Drop duplicate problems; the first one stays."""
    return list({(problem.path, problem.message): problem for problem in reversed(problems)}.values())[::-1]


def _schema_problems(document: ParsedDocument, form: str, value: Any, path: ValuePath = ()) -> list[Problem]:
    """Return the schema errors, one per path: a value of the wrong type is not also too small."""
    by_path: dict[str, Problem] = {}
    for problem in dialect_schema(form).errors(value):
        by_path.setdefault(problem.path, problem)
    if path:
        by_path = {
            inner: replace(problem, path=_inner_path(join_path(path), inner)) for inner, problem in by_path.items()
        }
    return document.with_lines(list(by_path.values()))


def _inner_path(path: str, inner: str) -> str:
    return path + ("" if not inner or inner.startswith("[") else ".") + inner
