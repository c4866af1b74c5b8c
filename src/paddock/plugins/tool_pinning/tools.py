"""What a plugin can be asked to do, as people see it: what each callable says, takes and changes, and how it stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.errors import NotFound, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import compile_schema
from paddock.core.schema.traversal import as_object
from paddock.manifest.model import CallableForm, CallableSpec, Manifest
from paddock.manifest.permissions import callable_effects
from paddock.plugins.dialects.envelope import is_mcp_server, result_value
from paddock.plugins.store.lookup import (
    find_by_name_or_alias,
    load_schema,
    manifest_of,
    pinned_version_missing_error,
    require_plugin,
)
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import VersionRow, find_version
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import TOOL, DefinitionStatus
from paddock.plugins.tool_pinning.offer import apply_manifest
from paddock.plugins.tool_pinning.render import list_parameters, visible_text
from paddock.plugins.tool_pinning.rows import DefinitionRow, DefinitionTexts, definitions_of, texts_by_name, was_listed
from paddock.plugins.tool_pinning.scan.findings import ScanFinding
from paddock.plugins.tool_pinning.scan.scan import PluginScan, load_scan
from paddock.store.database import Transaction

DECLARED = "declared"  # its package says so, which somebody consented to
NEVER_LISTED = "unmet"  # its package says so, and its server never ran


@dataclass(frozen=True, slots=True)
class PluginTools:
    """What is on record of one plugin's callables. `known` is false for a server that never ran.

    What they say is worked out when it is asked for, and no sooner: a server may list a great deal, and the store must
    not wait for that.
    """

    name: str
    known: bool
    manifest: Manifest
    root: Path
    rows: tuple[DefinitionRow, ...] = ()
    texts: Mapping[str, DefinitionTexts] | None = None  # of a server's tools, by name
    survey: PluginScan | None = None  # what it says to models, and beside whom

    def to_value(self) -> dict[str, Any]:
        hints = self.scan_findings()
        of_all = [hint.to_value() for hint in hints if hint.kind != TOOL]
        return {"name": self.name, "known": self.known, "tools": list(self.values(hints)), "hints": of_all}

    def scan_findings(self) -> tuple[ScanFinding, ...]:
        """What is odd about its words."""
        return self.survey.find_all() if self.survey is not None else ()

    def values(self, hints: Iterable[ScanFinding] = ()) -> Iterator[dict[str, Any]]:
        """Each callable as data, in the order in which they are declared or by name, with what is odd about it."""
        odd: dict[str, list[dict[str, Any]]] = {}
        for hint in hints:
            if hint.kind == TOOL:
                odd.setdefault(hint.name, []).append(hint.to_value())
        for value in self._values():
            yield value | {"hints": odd.get(value["name"], [])}

    def _values(self) -> Iterator[dict[str, Any]]:
        if self.texts is None or not self.known:
            standing = DECLARED if self.texts is None else NEVER_LISTED
            for spec in self.manifest.callables:
                yield self._callable_value(spec, standing)
            return
        for row in self.rows:
            yield self._listed_value(row, self.texts.get(row.name, DefinitionTexts("", "")))

    def accepted_callables(self) -> tuple[CallableSpec, ...]:
        """Those of a server that may be called, with the schemas that it gives."""
        texts = self.texts or {}
        usable = [row for row in self.rows if row.standing is DefinitionStatus.ACCEPTED and row.name in texts]
        read = (_parse_tool(json.loads(texts[row.name].accepted)) for row in usable)
        return tuple(spec for spec in read if spec is not None)

    def output_problems(self, name: str, result: Any) -> list[Problem]:
        """What is wrong with an answer of a callable, by what is promised of it; nothing where nothing is."""
        schema = next((one["output_schema"] for one in self.values() if one["name"] == name), None)
        return [] if schema is None else compile_schema(schema).errors(result_value(self.manifest, result))

    def _listed_value(self, row: DefinitionRow, texts: DefinitionTexts) -> dict[str, Any]:
        """A server's tool: what it says now, where that waits for somebody; otherwise what was accepted."""
        text = texts.waiting or texts.accepted
        raw: Any = json.loads(text) if text else {}
        spec = _parse_tool(raw)
        if spec is None:  # nobody can use it; what it says is shown all the same
            said = (as_object(raw) or {}).get("description")
            spec = CallableSpec(row.name, CallableForm.TOOL, said if isinstance(said, str) else "")
        declared = {one.name: one for one in self.manifest.callables}
        spec = apply_manifest(spec, declared.get(row.name))
        return self._callable_value(spec, row.standing.value, row.name, row.reason, row.accepted_by)

    def _callable_value(
        self, spec: CallableSpec, standing: str, name: str = "", reason: str = "", accepted_by: str = ""
    ) -> dict[str, Any]:
        given = load_schema(spec.input_schema, self.root) if spec.input_schema is not None else None
        gives = load_schema(spec.output_schema, self.root) if spec.output_schema is not None else None
        alone = spec.form is CallableForm.WHOLE and spec is self.manifest.whole
        return {
            "name": name or spec.name,
            "call": self.name if alone else f"{self.name}.{name or spec.name}",
            "title": visible_text(spec.title),
            "description": visible_text(spec.description),
            "standing": standing,
            "reason": reason,
            "accepted_by": accepted_by,
            "effects": [effect.value for effect in callable_effects(self.manifest, spec)],
            "recovery": spec.recovery,
            "probe": spec.probe,
            "requires_approval": spec.requires_approval,
            "required_scopes": list(spec.required_scopes),
            "parameters": [one.to_value() for one in list_parameters(given)],
            "input_schema": given,
            "output_schema": gives,
        }


def load_tools(store: PluginStore, plugin: str) -> PluginTools:
    """What a plugin can be asked to do.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """

    def unit(tx: Transaction) -> PluginTools:
        found = require_plugin(tx, plugin)
        current = find_version(tx, found.name, found.current_version)
        if current is None:
            raise pinned_version_missing_error(found)
        return read_version_tools(tx, store, current, manifest_of(current))

    return store.database.read(unit)


def read_version_tools(tx: Transaction, store: PluginStore, version: VersionRow, manifest: Manifest) -> PluginTools:
    """The same of one version of it."""
    root = ensure_local_files(store, version)
    survey = load_scan(tx, store.tenant, manifest, root)
    if not is_mcp_server(manifest):
        return PluginTools(version.plugin, True, manifest, root, survey=survey)
    rows = definitions_of(tx, store.tenant, version.plugin)
    tools = tuple(row for row in rows if row.kind == TOOL)
    known = bool(rows) or was_listed(tx, store.tenant, version.plugin)
    texts = texts_by_name(tx, store.tenant, version.plugin, TOOL)
    return PluginTools(version.plugin, known, manifest, root, tools, texts, survey)


def _parse_tool(raw: Any) -> CallableSpec | None:
    # Imported here: a plugin that is no server needs nobody who knows how those speak.
    from paddock.plugins.tool_pinning.mcp_tool import parse_tool

    found = parse_tool(raw)
    return found if isinstance(found, CallableSpec) else None


_MAX_NAMES_LISTED = 12


def find_callable(store: PluginStore, name: str) -> tuple[str, dict[str, Any]]:
    """The plugin that a full name begins with, and what is on record of the callable that the rest names.

    A plugin's own name will do where it is one callable.

    Raises:
        NotFound: no installed plugin has it.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):  # names have dots in them: the longest that is one
        asked, rest = ".".join(parts[:length]), ".".join(parts[length:])
        found = store.database.read(lambda tx, asked=asked: find_by_name_or_alias(tx, asked))
        if found is None:
            continue
        tools = list(load_tools(store, found.name).values())
        chosen = [one for one in tools if one["name"] == rest] or (tools if not rest and len(tools) == 1 else [])
        if chosen:
            return found.name, chosen[0]
        offered = ", ".join(printable(one["name"], 80) for one in tools[:_MAX_NAMES_LISTED])
        raise NotFound(
            f"{found.name} has no {printable(rest)!r}" if rest else f"say which callable of {found.name} you mean",
            code="callable.not_found",
            hint=f"it offers: {offered}" if offered else f"see what it offers: paddock plugin tools {found.name}",
            details={"plugin": found.name},
        )
    raise NotFound(
        f"no installed plugin has {printable(name)!r}", code="callable.not_found", hint="see 'paddock plugin list'"
    )
