"""Detects the dialect of a parsed file."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.manifest.dialects import kaged, kernel, mcp_bundle, mcp_registry, native, osqr, shu
from paddock.manifest.dialects.mcp_server_lists import find_server_lists
from paddock.manifest.model import PluginKind
from paddock.manifest.syntax.document import ParsedDocument
from paddock.manifest.syntax.fields import Fields

_KERNEL_KINDS = frozenset(kind.value for kind in PluginKind) - {PluginKind.PLUGIN.value}


def detect_dialect(document: ParsedDocument) -> str | None:
    """Return the schema name of a document's dialect; None if it matches none."""
    base = document.name.rpartition("/")[2]
    fields = Fields(document.value)
    if base.startswith("paddock."):
        only_runtime = "runtime" in fields and "name" not in fields
        return native.RUNTIME_SCHEMA if only_runtime else native.SCHEMA
    if base.startswith("kaged-plugin."):
        return kaged.SCHEMA
    if base.endswith(".py"):
        return shu.SCHEMA
    return next((form for matches, form in _dialect_signs(fields, base) if matches), None)


def _dialect_signs(fields: Fields, base: str) -> Iterator[tuple[bool, str]]:
    """Yield indications of a dialect, most certain first; lazily, so that later ones are often not computed."""
    yield "paddock" in fields, native.SCHEMA
    yield "kaged_api" in fields, kaged.SCHEMA
    for servers in find_server_lists(fields, base):
        yield True, servers.form
    yield any(key in fields for key in ("manifest_version", "dxt_version", "server")), mcp_bundle.SCHEMA
    yield "plugin" in fields or "constitutional_compliance" in fields, osqr.SCHEMA
    yield "entrypoints" in fields, shu.SCHEMA
    yield fields.text("type") in _KERNEL_KINDS or ("type" in fields and "schemas" in fields), kernel.SCHEMA
    described = "packages" in fields or "remotes" in fields
    yield described or "server.schema.json" in fields.text("$schema"), mcp_registry.SCHEMA
    yield "command" in fields and "capabilities" in fields, kaged.SCHEMA
