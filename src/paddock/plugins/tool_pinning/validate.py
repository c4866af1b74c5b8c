"""Validates values against the schemas of installed plugins: those of a package, and those of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.core.action import Action
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
    """Validate a value against a schema of an installed plugin; an empty list means it is valid.

    Args:
        store: The plugin store.
        value: Any JSON value.
        reference: `NAME[@CONSTRAINT]#input`, `…#output`, or `…#CALLABLE/input` if a plugin has several callables.
            The tools of a server are the accepted ones, whatever its version.

    Raises:
        NotFound: the plugin, version, callable or schema does not exist.
        PluginError: the schema itself cannot be used, or its file was modified.
    """
    plugin, _, fragment = reference.partition("#")
    name, _, constraint = plugin.partition("@")
    resolved = resolve_plugin(store, name, constraint)
    callable_name, _, side = fragment.rpartition("/")
    spec = _find_callable_spec(
        _known_callables(store, resolved.manifest), callable_name, reference, resolved.manifest.name
    )
    schema = {"input": spec.input_schema, "output": spec.output_schema}.get(side)
    if schema is None:
        raise NotFound(
            f"{reference!r} names no schema",
            code="schema.not_found",
            hint="write NAME@1.x#input or NAME#CALLABLE/output",
        )
    if isinstance(schema, SchemaFile) and not verify_tree(resolved.root, resolved.digest).intact:
        raise Modified(
            f"the files of {resolved.manifest.name} are not the ones you consented to, so its schemas are not used",
            action=Action.of("plugin.repair", plugin=resolved.manifest.name),
        )
    if isinstance(schema, SchemaFile):
        problems = schema_file_problems(schema, DirectoryFiles(resolved.root), reference)
        if problems:
            raise PluginError(f"the schema {reference} cannot be used: {problems[0].message}", code="schema.unusable")
    schema_value = load_schema(schema, resolved.root)
    try:
        return compile_schema(schema_value).errors(value)
    except Invalid as error:
        raise PluginError(
            f"the schema {reference} cannot be used: {error.problems[0].message}", code="schema.unusable"
        ) from error


def _known_callables(store: PluginStore, manifest: Manifest) -> Sequence[CallableSpec]:
    """Return its callables; for a server that was listed, the accepted ones."""
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
    names = ", ".join(spec.name for spec in callables[:20])
    raise NotFound(
        f"{reference!r} names no callable of {plugin}",
        code="callable.not_found",
        hint=f"it has: {names}" if names else "",
        action=None if names else Action.of("plugin.tools", plugin=plugin),
    )
