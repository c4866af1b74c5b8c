"""Reading a manifest: find it, tell its dialect, check it, map it. Everything wrong with it is reported at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

from paddock.core.errors import Invalid, Problem
from paddock.core.schema import CompiledSchema, compile_trusted
from paddock.manifest.dialects import kaged, kernel, mcp, native, osqr, shu
from paddock.manifest.dialects.mcp import Imported
from paddock.manifest.document import MAX_BYTES, Document, parse_document
from paddock.manifest.model import JsonObject, Kind, Manifest
from paddock.manifest.package_files import NoFiles, PackageFiles
from paddock.manifest.readiness import obstacles
from paddock.manifest.report import Fields, Report

SCHEMAS = Path(__file__).parent / "schemas"

# Where a package's manifest may stand, most specific name first.
FILE_NAMES = (
    *(
        "paddock.yaml",
        "paddock.yml",
        "kaged-plugin.yaml",
        "kaged-plugin.yml",
        "manifest.py",
        "manifest.yaml",
        "manifest.yml",
    ),
    *(
        "manifest.json",
        "plugin.yaml",
        "plugin.yml",
        "plugin.json",
        "server.json",
        ".vscode/mcp.json",
        ".mcp.json",
        "mcp.json",
    ),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file said: the plugins in it, and all that is wrong."""

    file: str
    form: str  # the schema it was read by, e.g. "kaged" or "mcp-servers"
    plugins: tuple[Imported, ...]
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        return not self.errors

    def all(self) -> tuple[Imported, ...]:
        """Every plugin of the file.

        Raises:
            Invalid: the file has mistakes; carries all of them.
        """
        if self.errors:
            count = len(self.errors)
            raise Invalid(
                f"{self.file} has {count} mistake{'s' if count != 1 else ''}",
                self.errors,
                code="manifest.invalid",
                hint="correct what is listed, then run 'paddock plugin check' again",
            )
        return self.plugins

    def single(self) -> Manifest:
        """The one plugin of the file.

        Raises:
            Invalid: the file has mistakes, or holds several plugins.
        """
        plugins = self.all()
        if len(plugins) != 1:
            names = ", ".join(plugin.manifest.name for plugin in plugins)
            raise Invalid(
                f"{self.file} holds {len(plugins)} plugins ({names})",
                [Problem("", "holds several servers", "run 'paddock import' on it", "several_plugins")],
                code="manifest.several",
            )
        return plugins[0].manifest


class DirectoryFiles:
    """The files of a package on disk. Links are not followed: nothing outside the package is ever read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, path: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(self._root / path).st_mode)
        except (OSError, ValueError):
            return False

    def read(self, path: str) -> bytes | None:
        try:
            data = read_bounded(self._root / path, follow=False)
        except (OSError, ValueError, Invalid):
            return None
        return data if len(data) <= MAX_BYTES else None

    def module_source(self, module: str) -> tuple[str, str] | None:
        base = module.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py", f"vendor/{base}.py"):
            data = self.read(path)
            if data is not None:
                return path, data.decode("utf-8", "replace")
        return None


def read_bounded(path: Path, *, follow: bool = True) -> bytes:
    """At most one byte more than a manifest may have, from a regular file; a pipe or device would hang us.

    Raises:
        OSError: it cannot be opened.
        Invalid: it is not a regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Invalid(
                f"{path.name} cannot be read",
                [Problem("", "is not a regular file", code="not_a_file")],
                code="manifest.unreadable",
            )
        return file.read(MAX_BYTES + 1)


def read_package(root: Path) -> Reading:
    """The manifest of a package directory, with a sibling paddock.yaml that may add the program.

    Raises:
        Invalid: there is no manifest, or it cannot be parsed at all.
    """
    files = DirectoryFiles(root)
    found = [name for name in FILE_NAMES if files.exists(name)]
    if not found:
        found = _sole_json(root)
    if not found:
        raise Invalid(
            f"{root.name or root} holds no manifest",
            [
                Problem(
                    "",
                    "no manifest was found",
                    f"add one of {', '.join(FILE_NAMES[:1] + FILE_NAMES[2:3] + FILE_NAMES[4:6])}, …",
                    "missing",
                )
            ],
            code="manifest.missing",
        )
    first = _parse(root, found[0])
    overlay: Document | None = None
    if found[0].startswith("paddock.") and "name" not in Fields(first.value) and len(found) > 1:
        overlay, first = first, _parse(root, found[1])
    return _read(first, files, overlay)


def read_file(path: Path) -> Reading:
    """One manifest file by itself; files it refers to are looked for beside it.

    Raises:
        Invalid: it cannot be parsed at all.
        OSError: it cannot be opened.
    """
    name = f".vscode/{path.name}" if path.parent.name == ".vscode" else path.name
    return _read(parse_document(name, read_bounded(path)), DirectoryFiles(path.parent), None)


def read_bytes(name: str, data: bytes, files: PackageFiles | None = None) -> Reading:
    """A manifest from memory.

    Raises:
        Invalid: it cannot be parsed at all.
    """
    return _read(parse_document(name, data), files or NoFiles(), None)


def read_values(document: Document) -> Manifest:
    """A manifest of our own form that was checked when it was stored.

    Raises:
        Invalid: it does not hold any more what the rules ask for.
    """
    report = Report(document)
    manifest = native.read(Fields(document.value), report)
    return Reading(document.name, native.SCHEMA, (Imported(manifest),), tuple(report.errors), ()).single()


def _parse(root: Path, name: str) -> Document:
    return parse_document(name, read_bounded(root / name, follow=False))


def _sole_json(root: Path) -> list[str]:
    """Kernel manifests have no fixed name: a package with exactly one JSON file at its root means that one."""
    try:
        names = sorted(
            entry.name
            for entry in os.scandir(root)
            if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
        )
    except OSError:
        return []
    return names if len(names) == 1 else []


def form_of(document: Document) -> str | None:
    """Which dialect's schema a document is to be read by; None when it looks like none of them."""
    base = document.name.rpartition("/")[2]
    fields = Fields(document.value)
    if base.startswith("paddock."):
        only_runtime = "runtime" in fields and "name" not in fields
        return native.RUNTIME_SCHEMA if only_runtime else native.SCHEMA
    if base.startswith("kaged-plugin."):
        return kaged.SCHEMA
    if base.endswith(".py"):
        return shu.SCHEMA
    kinds = {kind.value for kind in Kind} - {Kind.PLUGIN.value}
    signs: list[tuple[bool, str]] = [
        ("paddock" in fields, native.SCHEMA),
        ("kaged_api" in fields, kaged.SCHEMA),
        ("mcpServers" in fields, "mcp-servers"),
        ("servers" in fields and base.endswith("mcp.json"), "vscode-mcp"),
        ("manifest_version" in fields or "dxt_version" in fields or "mcp_config" in fields.within("server"), "mcpb"),
        ("plugin" in fields or "constitutional_compliance" in fields, osqr.SCHEMA),
        ("entrypoints" in fields, shu.SCHEMA),
        (fields.text("type") in kinds or ("type" in fields and "schemas" in fields), kernel.SCHEMA),
        ("packages" in fields or "remotes" in fields or "server.schema.json" in fields.text("$schema"), "mcp-server"),
        ("command" in fields and "capabilities" in fields, kaged.SCHEMA),
    ]
    return next((form for sign, form in signs if sign), None)


@cache
def compiled(form: str) -> CompiledSchema:
    """The published schema of a dialect, ready to check documents with."""
    import orjson

    return compile_trusted(orjson.loads((SCHEMAS / f"{form}.schema.json").read_bytes()))


_SINGLE: dict[str, Callable[[Fields, Report, PackageFiles], Manifest]] = {
    native.SCHEMA: lambda fields, report, _: native.read(fields, report),
    kaged.SCHEMA: lambda fields, report, _: kaged.read(fields, report),
    kernel.SCHEMA: lambda fields, report, _: kernel.read(fields, report),
    osqr.SCHEMA: lambda fields, report, _: osqr.read(fields, report),
    shu.SCHEMA: shu.read,
    "mcpb": lambda fields, report, _: mcp.read_bundle(fields, report),
    "mcp-server": lambda fields, report, _: mcp.read_registry_server(fields, report),
}


def _read(document: Document, files: PackageFiles, overlay: Document | None) -> Reading:
    form = form_of(document)
    report = Report(document)
    if form is None or form == native.RUNTIME_SCHEMA:
        what = (
            "only adds a program, and there is no manifest beside it" if form else "is no manifest that Paddock knows"
        )
        report.error((), what, "see the manifest reference for the seven dialects", "unknown_dialect")
        return Reading(document.name, form or "", (), tuple(report.errors), ())
    report.add(_with_lines(document, compiled(form).errors(document.value)))
    fields = Fields(document.value)
    if form in ("mcp-servers", "vscode-mcp"):
        plugins = mcp.read_servers(fields, report, "mcpServers" if form == "mcp-servers" else "servers")
    else:
        plugins = [Imported(_SINGLE[form](fields, report, files))]
    if overlay is not None:
        plugins = [_overlaid(plugin, overlay, report) for plugin in plugins]
    if not report.errors:
        for plugin in plugins:
            report.warnings.extend(obstacles(plugin.manifest, files))
    return Reading(document.name, form, tuple(plugins), tuple(_unique(report.errors)), tuple(_unique(report.warnings)))


def _overlaid(plugin: Imported, overlay: Document, report: Report) -> Imported:
    """The plugin with the program that a sibling paddock.yaml supplies."""
    report.add(_with_lines(overlay, compiled(native.RUNTIME_SCHEMA).errors(overlay.value)))
    extra = Report(overlay)
    fields = Fields(overlay.value)
    manifest = plugin.manifest
    if manifest.runtime is not None:
        extra.error(("runtime",), "the manifest beside it already names a program", "keep one of them", "runtime")
    runtime = native.read_runtime(extra, fields, manifest.name)
    asked = native.read_capabilities(extra, fields, "capabilities")
    report.add(extra.errors)
    report.warnings.extend(extra.warnings)
    capabilities = tuple(dict.fromkeys([*manifest.capabilities, *asked]))
    return replace(
        plugin, manifest=replace(manifest, runtime=runtime, start=native.read_start(fields), capabilities=capabilities)
    )


def _with_lines(document: Document, problems: list[Problem]) -> list[Problem]:
    """The schema's findings with the lines they stand on."""
    by_text = {}
    if document.lines:
        from paddock.core.schema import join_path

        by_text = {join_path(path): line for path, line in document.lines.items()}
    return [replace(problem, line=_nearest(by_text, problem.path)) for problem in problems]


def _nearest(lines: JsonObject, path: str) -> int | None:
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return cast("int | None", lines.get(path))


def _unique(problems: list[Problem]) -> list[Problem]:
    """Each mistake once: the schema and a rule may both have found it. The first one said stays."""
    seen: set[tuple[str, str]] = set()
    kept: list[Problem] = []
    for problem in problems:
        key = (problem.path, problem.message)
        if key not in seen:
            seen.add(key)
            kept.append(problem)
    return kept
