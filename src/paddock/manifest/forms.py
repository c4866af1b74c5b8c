"""Telling which dialect a parsed file was written in."""

from __future__ import annotations

from paddock.manifest.dialects import kaged, kernel, mcp_bundle, mcp_registry, native, osqr, shu
from paddock.manifest.dialects.mcp_lists import server_lists
from paddock.manifest.document import Document
from paddock.manifest.model import Kind
from paddock.manifest.report import Fields


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
        *((True, servers.form) for servers in server_lists(fields, base)),
        (any(key in fields for key in ("manifest_version", "dxt_version", "server")), mcp_bundle.SCHEMA),
        ("plugin" in fields or "constitutional_compliance" in fields, osqr.SCHEMA),
        ("entrypoints" in fields, shu.SCHEMA),
        (fields.text("type") in kinds or ("type" in fields and "schemas" in fields), kernel.SCHEMA),
        (
            "packages" in fields or "remotes" in fields or "server.schema.json" in fields.text("$schema"),
            mcp_registry.SCHEMA,
        ),
        ("command" in fields and "capabilities" in fields, kaged.SCHEMA),
    ]
    return next((form for sign, form in signs if sign), None)
