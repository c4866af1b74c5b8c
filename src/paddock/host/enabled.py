"""What should be running: the plugins that the rows say are enabled for a tenant. Blocks; for the store thread."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.core.errors import PaddockError
from paddock.core.ids import Digest
from paddock.gate.catalogue import Entry, Schemas
from paddock.manifest.capability import BadCapability, Capability, covers, parse
from paddock.manifest.model import Manifest
from paddock.plugins.local_copy import local_root
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import BUILT_IN_ALIASES, manifest_of, schema_value
from paddock.plugins.rows import Grant, VersionRow, all_aliases, all_grants, current_versions
from paddock.plugins.supervision.deployment import Deployment, InstanceKey


@dataclass(frozen=True, slots=True)
class Enabled:
    """One plugin that people want to run."""

    deployment: Deployment
    entry: Entry
    row: VersionRow


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One that they want and that cannot be understood any more, e.g. after an upgrade of the host."""

    name: str
    error: PaddockError


def enabled_plugins(store: PluginStore) -> tuple[list[Enabled], list[Unreadable]]:
    """Every enabled plugin in the version that is in use, by name."""
    versions, grants, aliases = store.database.read(
        lambda tx: (current_versions(tx), all_grants(tx, store.tenant), all_aliases(tx))
    )
    found: list[Enabled] = []
    unreadable: list[Unreadable] = []
    for name, row in sorted(versions.items()):
        grant = grants.get(name)
        if grant is None or not grant.enabled:
            continue
        own_aliases = [alias for alias, target in {**BUILT_IN_ALIASES, **aliases}.items() if target == name]
        try:
            found.append(_enabled(store, row, grant, own_aliases))
        except PaddockError as error:
            unreadable.append(Unreadable(name, error))
    return found, unreadable


def _enabled(store: PluginStore, row: VersionRow, grant: Grant, aliases: list[str]) -> Enabled:
    manifest = manifest_of(row)
    key = InstanceKey(store.tenant, row.plugin, Digest(row.digest))
    root = local_root(store, row)
    schemas = {
        spec.name: Schemas(schema_value(spec.input_schema, root), schema_value(spec.output_schema, root))
        for spec in manifest.callables
    }
    return Enabled(
        Deployment(key, manifest, granted_of(manifest, grant)),
        Entry(key, manifest, schemas, tuple(aliases)),
        row,
    )


def granted_of(manifest: Manifest, grant: Grant) -> tuple[Capability, ...]:
    """What the plugin asks for and was granted. A grant that no longer parses grants nothing."""
    held: list[Capability] = []
    for text in grant.capabilities:
        try:
            held.append(parse(text))
        except BadCapability:
            continue
    return tuple(asked for asked in manifest.capabilities if any(covers(have, asked) for have in held))
