"""A plugin's callables for people: description, parameters, effects and acceptance status of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import NotFound, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import compile_schema
from paddock.core.schema.traversal import as_object
from paddock.core.schema_annotations import DateTime
from paddock.manifest.effects import Claim, Effect, claim_of, effect_texts
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
from paddock.plugins.tool_pinning.render import CallableParameterJson, list_parameters, visible_text
from paddock.plugins.tool_pinning.rows import (
    DefinitionRow,
    DefinitionTexts,
    LastListing,
    definitions_of,
    find_last_listing,
    texts_by_name,
    was_listed,
)
from paddock.plugins.tool_pinning.scan.findings import HintJson, ScanFinding
from paddock.plugins.tool_pinning.scan.scan import PluginScan, load_scan
from paddock.plugins.tool_pinning.tool_trust import (
    DECLARED_HASH,
    NO_TRUST,
    ToolTrust,
    apply_trust,
    may_trust_to_read,
    trust_in_force,
    trust_of,
)
from paddock.store.database import Transaction

DECLARED = "declared"  # declared by its package, which was consented to
NEVER_LISTED = "unmet"  # declared by its package; its server never ran


class CallableJson(TypedDict):
    """A callable of a plugin."""

    name: str
    call: Annotated[str, "The full name, for calls."]
    title: str
    description: str
    standing: Annotated[str, "The status of its definition."]
    reason: Annotated[str, "Why the definition is not accepted."]
    accepted_by: str
    effects: list[str]
    claim: Annotated[Claim, "What it says of its own effect. Nobody has verified it."]
    does: Annotated[list[str], "Its effects in plain words; where they are unknown, its claim."]
    reads_trusted_by: Annotated[str, "Who takes its word that it only reads; empty if nobody does."]
    errors_trusted_by: Annotated[str, "Who settled that its errors mean that nothing was done; empty if nobody did."]
    recovery: str
    probe: str
    requires_approval: bool
    required_scopes: list[str]
    parameters: list[CallableParameterJson]
    input_schema: Annotated[Mapping[str, Any] | bool | None, "A JSON Schema."]
    output_schema: Annotated[Mapping[str, Any] | bool | None, "A JSON Schema."]


class ToolJson(CallableJson):
    """A callable of a plugin, with suspicious text in its definition."""

    hints: list[HintJson]


class ReadMarksJson(TypedDict):
    """The tools of a plugin that say that they only read, without proof."""

    trusted: Annotated[list[str], "Those that a person takes at their word."]
    untrusted: Annotated[dict[str, str], "The others that a person could take at their word: hashes by name."]


class ListingJson(TypedDict):
    """When a server last said what it offers."""

    seen_at: DateTime
    digest: Annotated[str, "Of the files that it ran as."]
    current: Annotated[bool, "Whether these are the files in use."]
    trial: Annotated[bool, "Whether that was in a trial, and it has not run since."]


class ToolsJson(TypedDict):
    """The callables of a plugin."""

    name: str
    read_marks: ReadMarksJson
    known: Annotated[bool, "False for a server that never ran and was never tried."]
    listing: Annotated[ListingJson | None, "Null where its package declares its tools, or nothing is recorded."]
    tools: list[ToolJson]
    hints: Annotated[list[HintJson], "Suspicious text outside of tools."]


class UsableTool(Struct, frozen=True):
    """A tool that may be called, as its package or its server defines it."""

    spec: CallableSpec
    hash: str  # of its definition; empty where its package declares it
    marked_read_only: bool  # whether nothing but its own word says that it only reads


class PluginTools(Struct, frozen=True):
    """The recorded callables of one plugin. `known` is False for a server that never ran and was never tried.

    Values are computed on demand: a server may list a great deal, and the store must not wait for that.
    """

    name: str
    known: bool
    manifest: Manifest
    root: Path
    rows: tuple[DefinitionRow, ...] = ()
    texts: Mapping[str, DefinitionTexts] | None = None  # definitions of a server's tools, by name
    scan: PluginScan | None = None  # the input for suspicious-text findings
    trust: ToolTrust = NO_TRUST
    version_digest: str = ""
    listing: LastListing | None = None

    def to_value(self) -> ToolsJson:
        findings = self.scan_findings()
        return {
            "name": self.name,
            "known": self.known,
            "listing": self._listing_value(),
            "tools": list(self.values(findings)),
            "read_marks": self.read_marks(),
            "hints": [finding.to_value() for finding in findings if finding.kind != TOOL],
        }

    def _listing_value(self) -> ListingJson | None:
        if self.listing is None:
            return None
        return {
            "seen_at": self.listing.seen_at,
            "digest": self.listing.digest,
            "current": self.listing.digest == self.version_digest,
            "trial": self.listing.tried,
        }

    def read_marks(self) -> ReadMarksJson:
        """Return which tools only read by their own word, and whether a person takes it."""
        marked = [tool for tool in self.usable_tools() if tool.marked_read_only]
        return {
            "trusted": [tool.spec.name for tool in marked if tool.spec.name in self.trust.reads],
            "untrusted": {tool.spec.name: tool.hash for tool in marked if tool.spec.name not in self.trust.reads},
        }

    def usable_tools(self) -> tuple[UsableTool, ...]:
        """Return the tools that may be called, without what a person takes their word for."""
        if self.texts is None:
            return tuple(self._usable(spec, DECLARED_HASH) for spec in self.manifest.callables)
        declared = {spec.name: spec for spec in self.manifest.callables}
        hashes = {row.name: row.hash or "" for row in self.rows}
        return tuple(
            self._usable(apply_manifest(spec, declared.get(spec.name)), hashes[spec.name])
            for spec in self.accepted_callables()
        )

    def _usable(self, spec: CallableSpec, definition_hash: str) -> UsableTool:
        unknown = callable_effects(self.manifest, spec) == (Effect.UNKNOWN,)
        return UsableTool(spec, definition_hash, unknown and may_trust_to_read(spec))

    def scan_findings(self) -> tuple[ScanFinding, ...]:
        """Return the suspicious-text findings."""
        return self.scan.find_all() if self.scan is not None else ()

    def values(self, findings: Iterable[ScanFinding] = ()) -> Iterator[ToolJson]:
        """Yield each callable as data, in declaration order or by name, with its findings."""
        findings_by_tool: dict[str, list[HintJson]] = {}
        for finding in findings:
            if finding.kind == TOOL:
                findings_by_tool.setdefault(finding.name, []).append(finding.to_value())
        for value in self._values():
            yield {**value, "hints": findings_by_tool.get(value["name"], [])}

    def _values(self) -> Iterator[CallableJson]:
        if self.texts is None or not self.known:
            standing = DECLARED if self.texts is None else NEVER_LISTED
            for spec in self.manifest.callables:
                yield self._callable_value(spec, standing, trust=self.trust)
            return
        for row in self.rows:
            yield self._listed_value(row, self.texts.get(row.name, DefinitionTexts("", "")))

    def accepted_callables(self) -> tuple[CallableSpec, ...]:
        """Return the server's accepted callables with its schemas."""
        texts = self.texts or {}
        usable = [row for row in self.rows if row.standing is DefinitionStatus.ACCEPTED and row.name in texts]
        parsed = (_parse_tool(json.loads(texts[row.name].accepted)) for row in usable)
        return tuple(spec for spec in parsed if spec is not None)

    def output_problems(self, name: str, result: Any) -> list[Problem]:
        """Return the violations of a callable's declared output schema in a result."""
        schema = next((value["output_schema"] for value in self.values() if value["name"] == name), None)
        return [] if schema is None else compile_schema(schema).errors(result_value(self.manifest, result))

    def _listed_value(self, row: DefinitionRow, texts: DefinitionTexts) -> CallableJson:
        """Describe a server's tool: its quarantined definition, if there is one, else the accepted one."""
        text = texts.waiting or texts.accepted
        raw: Any = json.loads(text) if text else {}
        spec = _parse_tool(raw)
        if spec is None:  # unusable; its description is shown all the same
            description = (as_object(raw) or {}).get("description")
            spec = CallableSpec(row.name, CallableForm.TOOL, description if isinstance(description, str) else "")
        declared = {one.name: one for one in self.manifest.callables}
        spec = apply_manifest(spec, declared.get(row.name))
        trust = self.trust if row.standing is DefinitionStatus.ACCEPTED else NO_TRUST
        return self._callable_value(spec, row.standing.value, row.name, row.reason, row.accepted_by, trust)

    def _callable_value(
        self,
        spec: CallableSpec,
        standing: str,
        name: str = "",
        reason: str = "",
        accepted_by: str = "",
        trust: ToolTrust = NO_TRUST,
    ) -> CallableJson:
        effects = [effect.value for effect in callable_effects(self.manifest, apply_trust(spec, trust))]
        claim = claim_of(spec.annotations)
        input_schema = load_schema(spec.input_schema, self.root) if spec.input_schema is not None else None
        output_schema = load_schema(spec.output_schema, self.root) if spec.output_schema is not None else None
        is_whole_plugin = spec.form is CallableForm.WHOLE and spec is self.manifest.whole
        return {
            "name": name or spec.name,
            "call": self.name if is_whole_plugin else f"{self.name}.{name or spec.name}",
            "title": visible_text(spec.title),
            "description": visible_text(spec.description),
            "standing": standing,
            "reason": reason,
            "accepted_by": accepted_by,
            "effects": effects,
            "claim": claim,
            "does": effect_texts(effects, claim, trusted=spec.name in trust.reads),
            "reads_trusted_by": trust.reads.get(spec.name, ""),
            "errors_trusted_by": trust.errors.get(spec.name, ""),
            "recovery": spec.recovery,
            "probe": spec.probe,
            "requires_approval": spec.requires_approval,
            "required_scopes": list(spec.required_scopes),
            "parameters": [one.to_value() for one in list_parameters(input_schema)],
            "input_schema": input_schema,
            "output_schema": output_schema,
        }


def load_tools(store: PluginStore, plugin: str) -> PluginTools:
    """Load a plugin's callables.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """

    def unit(tx: Transaction) -> PluginTools:
        row = require_plugin(tx, plugin)
        current = find_version(tx, row.name, row.current_version)
        if current is None:
            raise pinned_version_missing_error(row)
        return read_version_tools(tx, store, current, manifest_of(current))

    return store.database.read(unit)


def read_version_tools(tx: Transaction, store: PluginStore, version: VersionRow, manifest: Manifest) -> PluginTools:
    """Load the callables of one version of a plugin."""
    root = ensure_local_files(store, version)
    scan = load_scan(tx, store.tenant, manifest, root)
    trust_rows = trust_of(tx, store.tenant, version.plugin)
    if not is_mcp_server(manifest):
        trust = trust_in_force(trust_rows, version.digest, None)
        return PluginTools(version.plugin, True, manifest, root, scan=scan, trust=trust)
    rows = definitions_of(tx, store.tenant, version.plugin)
    tools = tuple(row for row in rows if row.kind == TOOL)
    known = bool(rows) or was_listed(tx, store.tenant, version.plugin)
    texts = texts_by_name(tx, store.tenant, version.plugin, TOOL)
    trust = trust_in_force(trust_rows, version.digest, {row.name: row.hash for row in tools})
    listing = find_last_listing(tx, store.tenant, version.plugin)
    return PluginTools(version.plugin, known, manifest, root, tools, texts, scan, trust, version.digest, listing)


def _parse_tool(raw: Any) -> CallableSpec | None:
    # Imported lazily: only MCP servers need it.
    from paddock.plugins.tool_pinning.mcp_tool import parse_tool

    parsed = parse_tool(raw)
    return parsed if isinstance(parsed, CallableSpec) else None


_MAX_NAMES_LISTED = 12


def find_callable(store: PluginStore, name: str) -> tuple[str, ToolJson]:
    """Return the plugin that a full name begins with, and the callable that the rest names.

    A plugin's own name is enough if it has a single callable.

    Raises:
        NotFound: no installed plugin has it.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):  # names may contain dots: the longest match wins
        prefix, rest = ".".join(parts[:length]), ".".join(parts[length:])
        plugin = store.database.read(lambda tx, prefix=prefix: find_by_name_or_alias(tx, prefix))
        if plugin is None:
            continue
        tools = list(load_tools(store, plugin.name).values())
        matches = [one for one in tools if one["name"] == rest] or (tools if not rest and len(tools) == 1 else [])
        if matches:
            return plugin.name, matches[0]
        offered = ", ".join(printable(one["name"], 80) for one in tools[:_MAX_NAMES_LISTED])
        raise NotFound(
            f"{plugin.name} has no callable {printable(rest)!r}" if rest else f"name a callable of {plugin.name}",
            code="callable.not_found",
            hint=f"it offers: {offered}" if offered else "",
            action=None if offered else Action.of("plugin.tools", plugin=plugin.name, tenant=store.tenant),
            details={"plugin": plugin.name},
        )
    raise NotFound(
        f"no installed plugin has a callable {printable(name)!r}",
        code="callable.not_found",
        action=Action.of("plugin.list"),
    )
