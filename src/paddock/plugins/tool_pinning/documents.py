"""Resources and prompts of a plugin for people: those of its manifest, and the accepted ones of its server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

from msgspec import Struct

from paddock.manifest.model import Manifest, Prompt, Resource
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.rows import find_version
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import INSTRUCTIONS, PROMPT, RESOURCE, TEMPLATE, DefinitionStatus
from paddock.plugins.tool_pinning.rows import DefinitionRow, accepted_texts, definitions_of
from paddock.store.database import Transaction


class WithheldDefinitionJson(TypedDict):
    """A definition that is withheld from use."""

    kind: str
    name: str
    standing: DefinitionStatus
    reason: str


class ResourcesJson(TypedDict):
    """The resources of a plugin, as its server describes them."""

    name: str
    known: Annotated[bool, "False for a server that never ran."]
    resources: list[dict[str, Any]]
    templates: list[dict[str, Any]]
    withheld: list[WithheldDefinitionJson]


class PromptsJson(TypedDict):
    """The prompts of a plugin."""

    name: str
    known: Annotated[bool, "False for a server that never ran."]
    prompts: list[dict[str, Any]]
    withheld: list[WithheldDefinitionJson]


class DocumentListing(Struct, frozen=True):
    """One plugin's resources or prompts. `known` is False for a server that never ran, whose documents are unknown."""

    name: str
    known: bool
    entries: Mapping[str, list[Any]]  # by key: resources, templates, prompts
    withheld: tuple[DefinitionRow, ...]

    def resources_to_json(self) -> ResourcesJson:
        """Serialize a listing of `list_resources`."""
        return {
            "name": self.name,
            "known": self.known,
            "resources": self.entries["resources"],
            "templates": self.entries["templates"],
            "withheld": self._withheld_to_json(),
        }

    def prompts_to_json(self) -> PromptsJson:
        """Serialize a listing of `list_prompts`."""
        return {
            "name": self.name,
            "known": self.known,
            "prompts": self.entries["prompts"],
            "withheld": self._withheld_to_json(),
        }

    def _withheld_to_json(self) -> list[WithheldDefinitionJson]:
        return [
            {"kind": row.kind, "name": row.name, "standing": row.standing, "reason": row.reason}
            for row in self.withheld
        ]


def list_resources(store: PluginStore, plugin: str) -> DocumentListing:
    """List a plugin's resources and resource templates.

    Raises:
        NotFound: it is not installed.
    """
    return store.database.read(
        lambda tx: _list_accepted(tx, store, plugin, {RESOURCE: "resources", TEMPLATE: "templates"})
    )


def list_prompts(store: PluginStore, plugin: str) -> DocumentListing:
    """List a plugin's prompts; see `list_resources`."""
    return store.database.read(lambda tx: _list_accepted(tx, store, plugin, {PROMPT: "prompts"}))


def accepted_instructions(tx: Transaction, store: PluginStore, plugin: str) -> str:
    """Return the accepted instructions that its server has for models; empty if there are none."""
    text = accepted_texts(tx, store.tenant, plugin, INSTRUCTIONS).get(INSTRUCTIONS)
    instructions: Any = json.loads(text) if text else ""
    return instructions if isinstance(instructions, str) else ""


def _objects(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Parse definitions, without those that are not objects: earlier versions stored them."""
    return [value for value in map(json.loads, texts) if isinstance(value, dict)]


def _list_accepted(tx: Transaction, store: PluginStore, plugin: str, kinds: Mapping[str, str]) -> DocumentListing:
    plugin_row = require_plugin(tx, plugin)
    current = find_version(tx, plugin_row.name, plugin_row.current_version)
    if current is None:
        raise pinned_version_missing_error(plugin_row)
    manifest = manifest_of(current)
    if not is_mcp_server(manifest):
        declared = _declared_documents(manifest)
        return DocumentListing(plugin_row.name, True, {name: declared[kind] for kind, name in kinds.items()}, ())
    rows = definitions_of(tx, store.tenant, plugin_row.name)
    entries = {
        name: _objects(accepted_texts(tx, store.tenant, plugin_row.name, kind).values()) for kind, name in kinds.items()
    }
    withheld = tuple(
        definition
        for definition in rows
        if definition.kind in kinds and definition.standing in (DefinitionStatus.QUARANTINED, DefinitionStatus.BAD)
    )
    if "prompts" in entries:
        listed = {
            definition.name
            for definition in rows
            if definition.kind == PROMPT and definition.standing is not DefinitionStatus.GONE
        }
        manifest_prompts = (
            prompt for prompt in manifest.prompts if prompt.text is not None and prompt.name not in listed
        )
        entries["prompts"] += _prompt_values(manifest_prompts)
    return DocumentListing(plugin_row.name, bool(rows), entries, withheld)


def _declared_documents(manifest: Manifest) -> dict[str, list[Any]]:
    return {RESOURCE: _resource_values(manifest.resources), TEMPLATE: [], PROMPT: _prompt_values(manifest.prompts)}


def _resource_values(resources: Iterable[Resource]) -> list[Any]:
    return [
        {
            "uri": resource.uri,
            "name": resource.name,
            "description": resource.description,
            **({"mimeType": resource.mime_type} if resource.mime_type else {}),
        }
        for resource in resources
    ]


def _prompt_values(prompts: Iterable[Prompt]) -> list[Any]:
    return [
        {
            "name": prompt.name,
            "description": prompt.description,
            "arguments": [
                {"name": argument.name, "description": argument.description, "required": argument.required}
                for argument in prompt.arguments
            ],
        }
        for prompt in prompts
    ]
