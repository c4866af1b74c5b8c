"""The documents and prompts of a plugin as people see them: what its server says and somebody accepted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.manifest.model import Manifest, Prompt, Resource
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.rows import find_version
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import INSTRUCTIONS, PROMPT, RESOURCE, TEMPLATE, DefinitionStatus
from paddock.plugins.tool_pinning.rows import DefinitionRow, accepted_texts, definitions_of
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class DocumentListing:
    """One plugin's documents or prompts. `known` is false for a server that never ran: nobody knows what it has."""

    name: str
    known: bool
    entries: Mapping[str, list[Any]]  # by what they are: resources, templates, prompts
    withheld: tuple[DefinitionRow, ...]

    def to_value(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "known": self.known,
            **self.entries,
            "withheld": [
                {"kind": row.kind, "name": row.name, "standing": row.standing.value, "reason": row.reason}
                for row in self.withheld
            ],
        }


def list_resources(store: PluginStore, plugin: str) -> DocumentListing:
    """Its documents, and the templates of those that have no address of their own.

    Raises:
        NotFound: it is not installed.
    """
    return store.database.read(
        lambda tx: _list_accepted(tx, store, plugin, {RESOURCE: "resources", TEMPLATE: "templates"})
    )


def list_prompts(store: PluginStore, plugin: str) -> DocumentListing:
    """Its prompts; see `resources_of`."""
    return store.database.read(lambda tx: _list_accepted(tx, store, plugin, {PROMPT: "prompts"}))


def accepted_instructions(tx: Transaction, store: PluginStore, plugin: str) -> str:
    """What its server wants models to know, as far as somebody accepted it."""
    text = accepted_texts(tx, store.tenant, plugin, INSTRUCTIONS).get(INSTRUCTIONS)
    said: Any = json.loads(text) if text else ""
    return said if isinstance(said, str) else ""


def _list_accepted(tx: Transaction, store: PluginStore, plugin: str, kinds: Mapping[str, str]) -> DocumentListing:
    found = require_plugin(tx, plugin)
    current = find_version(tx, found.name, found.current_version)
    if current is None:
        raise pinned_version_missing_error(found)
    manifest = manifest_of(current)
    if not is_mcp_server(manifest):
        declared = _declared_documents(manifest)
        return DocumentListing(found.name, True, {name: declared[kind] for kind, name in kinds.items()}, ())
    rows = definitions_of(tx, store.tenant, found.name)
    entries = {
        name: [json.loads(text) for text in accepted_texts(tx, store.tenant, found.name, kind).values()]
        for kind, name in kinds.items()
    }
    withheld = tuple(
        row
        for row in rows
        if row.kind in kinds and row.standing in (DefinitionStatus.QUARANTINED, DefinitionStatus.BAD)
    )
    if "prompts" in entries:
        listed = {row.name for row in rows if row.kind == PROMPT and row.standing is not DefinitionStatus.GONE}
        own = (prompt for prompt in manifest.prompts if prompt.text is not None and prompt.name not in listed)
        entries["prompts"] += _prompt_values(own)
    return DocumentListing(found.name, bool(rows), entries, withheld)


def _declared_documents(manifest: Manifest) -> dict[str, list[Any]]:
    return {RESOURCE: _resource_values(manifest.resources), TEMPLATE: [], PROMPT: _prompt_values(manifest.prompts)}


def _resource_values(resources: Iterable[Resource]) -> list[Any]:
    return [
        {
            "uri": one.uri,
            "name": one.name,
            "description": one.description,
            **({"mimeType": one.mime_type} if one.mime_type else {}),
        }
        for one in resources
    ]


def _prompt_values(prompts: Iterable[Prompt]) -> list[Any]:
    return [
        {
            "name": one.name,
            "description": one.description,
            "arguments": [
                {"name": argument.name, "description": argument.description, "required": argument.required}
                for argument in one.arguments
            ],
        }
        for one in prompts
    ]
