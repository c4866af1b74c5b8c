"""What should be running: the plugins that the rows say are enabled for a tenant. Blocks; for the store thread."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paddock.core.errors import PaddockError
from paddock.core.ids import Digest
from paddock.gate.catalogue import Entry, Schemas
from paddock.host.listings import Listing, listed_entry, read_listings
from paddock.manifest.capability import BadCapability, Capability, covers, parse
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.read import DirectoryFiles, read_bytes
from paddock.plugins.local_copy import local_root
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import BUILT_IN_ALIASES, schema_value
from paddock.plugins.rows import Grant, VersionRow, all_aliases, all_grants, current_versions
from paddock.plugins.runtimes.envelopes import speaks_mcp
from paddock.plugins.supervision.deployment import Deployment, InstanceKey, Status
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.trust import Standing, standing_of, trusted_keys


@dataclass(frozen=True, slots=True)
class Enabled:
    """One plugin that people want to run."""

    deployment: Deployment
    entry: Entry
    listing: Listing  # of its tools, where a server lists them


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One that they want and that cannot be understood any more, e.g. after an upgrade of the host."""

    key: InstanceKey
    version: str
    error: PaddockError

    @property
    def name(self) -> str:
        return self.key.plugin

    def status(self) -> Status:
        """How it is doing: not at all, and why."""
        return Status(
            self.key,
            self.version,
            State.DISABLED,
            reason=f"invalid manifest: {self.error.message}",
            hint=self.error.hint,
            error_code=self.error.error_code,
        )


class EnabledPlugins:
    """Reads them again and again; what did not change since the last time is not worked out again."""

    def __init__(self) -> None:
        self.given_up: dict[str, str] = {}  # by name and alias: why a daemon disabled it, at the last reading
        self._known: dict[tuple[object, ...], Enabled | Unreadable] = {}

    def read(self, store: PluginStore) -> tuple[list[Enabled], list[Unreadable]]:
        """Every enabled plugin in the version that is in use, by name."""
        versions, grants, aliases, listings, keys = store.database.read(
            lambda tx: (
                current_versions(tx),
                all_grants(tx, store.tenant),
                all_aliases(tx),
                read_listings(tx, store),
                trusted_keys(tx),
            )
        )
        trusted = {key.key_id: key.label for key in keys}
        targets = {**BUILT_IN_ALIASES, **aliases}
        given_up = {name: grant.given_up for name, grant in grants.items() if grant.given_up and not grant.enabled}
        self.given_up = {alias: given_up[name] for alias, name in targets.items() if name in given_up} | given_up
        known: dict[tuple[object, ...], Enabled | Unreadable] = {}
        for name, row in sorted(versions.items()):
            grant = grants.get(name)
            if grant is None or not grant.enabled:
                continue
            own = tuple(alias for alias, target in targets.items() if target == name)
            listing = listings.get(name, Listing())
            # What runs is what was installed: that is checked when it starts.
            standing = standing_of(row, trusted, intact=True)
            key = (name, row.digest, row.manifest_text, grant.capabilities, own, listing.fingerprint, standing)
            known[key] = self._known.get(key) or _read(store, row, grant, own, listing, standing)
        self._known = known
        found = [one for one in known.values() if isinstance(one, Enabled)]
        return found, [one for one in known.values() if isinstance(one, Unreadable)]


def _read(
    store: PluginStore, row: VersionRow, grant: Grant, aliases: tuple[str, ...], listing: Listing, standing: Standing
) -> Enabled | Unreadable:
    key = InstanceKey(store.tenant, row.plugin, Digest(row.digest))
    try:
        # All rules once more: a manifest that an older Paddock accepted may not hold for this one.
        manifest = read_bytes(
            "paddock.yaml", row.manifest_text.encode(), DirectoryFiles(local_root(store, row))
        ).single()
    except PaddockError as error:
        return Unreadable(key, row.version, error)
    signature = "remote" if isinstance(manifest.runtime, RemoteRuntime) else standing.state.value
    granted = granted_of(manifest, grant)
    deployment = Deployment(key, manifest, granted, tier=standing.tier, signature=signature)
    if speaks_mcp(manifest):
        entry = listed_entry(store, deployment, listing, aliases)
        return Enabled(deployment, replace(entry, tier=standing.tier, signature=signature), listing)
    root = local_root(store, row)
    schemas = {
        spec.name: Schemas(schema_value(spec.input_schema, root), schema_value(spec.output_schema, root))
        for spec in manifest.callables
    }
    entry = Entry(key, manifest, schemas, aliases, tier=standing.tier, signature=signature)
    return Enabled(deployment, entry, listing)


def granted_of(manifest: Manifest, grant: Grant) -> tuple[Capability, ...]:
    """What the plugin asks for and was granted. A grant that no longer parses grants nothing."""
    held: list[Capability] = []
    for text in grant.capabilities:
        try:
            held.append(parse(text))
        except BadCapability:
            continue
    return tuple(asked for asked in manifest.capabilities if any(covers(have, asked) for have in held))
