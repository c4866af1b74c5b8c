"""Checking values against the schemas of installed plugins: those of a package, and those that a server gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.core.errors import Invalid, Modified, NotFound, PluginError, Problem
from paddock.core.schema.compile import compile_schema
from paddock.manifest.model import CallableSpec, Manifest, SchemaFile
from paddock.manifest.read import DirectoryFiles
from paddock.manifest.rules.readiness import schema_file_problems
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.package.tree import verify_tree
from paddock.plugins.store.lookup import load_schema, resolve_plugin
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.tools import load_tools


def validate_value(store: PluginStore, value: Any, reference: str) -> list[Problem]:
    """Check a value against a schema of an installed plugin; an empty list means it fits.

    Args:
        store: The plugin store.
        value: Any JSON value.
        reference: `NAME[@CONSTRAINT]#input`, `…#output`, or `…#CALLABLE/input` where a plugin has several callables.
            The tools of a server are those that were accepted, whatever its version.

    Raises:
        NotFound: the plugin, version, callable or schema does not exist.
        PluginError: the schema itself cannot be used, or its file was modified.
    """
    plugin, _, fragment = reference.partition("#")
    name, _, constraint = plugin.partition("@")
    handle = resolve_plugin(store, name, constraint)
    callable_name, _, side = fragment.rpartition("/")
    spec = _find_callable_spec(_known_callables(store, handle.manifest), callable_name, reference, handle.manifest.name)
    schema = {"input": spec.input_schema, "output": spec.output_schema}.get(side)
    if schema is None:
        raise NotFound(
            f"{reference!r} names no schema",
            code="schema.not_found",
            hint="write NAME@1.x#input or NAME#CALLABLE/output",
        )
    if isinstance(schema, SchemaFile) and not verify_tree(handle.root, handle.digest).intact:
        raise Modified(
            f"the files of {handle.manifest.name} are not the ones you consented to, so its schemas are not used",
            hint=f"restore them: paddock plugin repair {handle.manifest.name}",
        )
    if isinstance(schema, SchemaFile):
        unusable = schema_file_problems(schema, DirectoryFiles(handle.root), reference)
        if unusable:
            raise PluginError(f"the schema {reference} cannot be used: {unusable[0].message}", code="schema.unusable")
    found = load_schema(schema, handle.root)
    try:
        return compile_schema(found).errors(value)
    except Invalid as error:
        raise PluginError(
            f"the schema {reference} cannot be used: {error.problems[0].message}", code="schema.unusable"
        ) from error


def _known_callables(store: PluginStore, manifest: Manifest) -> Sequence[CallableSpec]:
    """What it has: of a server that was met, what it said."""
    if not is_mcp_server(manifest):
        return manifest.callables
    listed = load_tools(store, manifest.name)
    return listed.accepted_callables() if listed.known else manifest.callables


def _find_callable_spec(callables: Sequence[CallableSpec], name: str, reference: str, plugin: str) -> CallableSpec:
    if not name and len(callables) == 1:
        return callables[0]
    for spec in callables:
        if spec.name == name:
            return spec
    named = ", ".join(spec.name for spec in callables[:20])
    raise NotFound(
        f"{reference!r} names no callable of {plugin}",
        code="callable.not_found",
        hint=f"it has: {named}" if named else f"see what it offers: paddock plugin tools {plugin}",
    )
