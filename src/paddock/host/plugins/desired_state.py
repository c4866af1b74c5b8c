"""What should be running: the plugins that the rows say are enabled, for each tenant. Blocks; for the store thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from paddock.core.errors import NeedsConsent, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Digest, Tenant
from paddock.gate.catalogue.catalogue import CallableSchemas, CatalogueEntry
from paddock.host.plugins.tool_records import ToolRecords, build_server_entry, read_all_tool_records
from paddock.manifest.capability import Capability, InvalidCapability, covers, missing_capabilities, parse_capability
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.read import DirectoryFiles, read_bytes
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.manage.enable import grant_required_error
from paddock.plugins.store.lookup import BUILT_IN_ALIASES, load_schema
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import Grant, VersionRow, all_aliases, current_versions, grants_by_tenant
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import DefinitionStatus as Stands
from paddock.plugins.tool_pinning.scan.collisions import NameIndex, PluginNames
from paddock.plugins.tool_pinning.scan.definition_text import TextScanResult
from paddock.plugins.tool_pinning.scan.findings import flags_by_callable
from paddock.plugins.tool_pinning.scan.scan import add_listed_tools, declared_names, load_scan
from paddock.plugins.trust.trusted_keys import SignerInfo, describe_signer, list_trusted_keys
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.lifecycle import PluginState


@dataclass(frozen=True, slots=True)
class DesiredPlugin:
    """One plugin that people want to run."""

    deployment: Deployment
    entry: CatalogueEntry
    listing: ToolRecords  # of its tools, where a server lists them
    words: TextScanResult | None = None  # what it says to models; None: nobody looks, for it is the application's own
    beside: NameIndex | None = None  # whom its entry's flags were worked out beside


@dataclass(frozen=True, slots=True)
class BlockedPlugin:
    """One that they want and that must not run as it is now."""

    key: InstanceKey
    version: str
    why: str
    error: PaddockError

    def status(self) -> PluginStatus:
        """How it is doing: not at all, and why."""
        return PluginStatus(
            self.key,
            self.version,
            PluginState.DISABLED,
            reason=f"{self.why}: {self.error.message}",
            hint=self.error.hint,
            error_code=self.error.error_code,
        )


class DesiredState:
    """Reads them again and again; what did not change since the last time is not worked out again."""

    def __init__(self) -> None:
        self.unavailable_reasons: dict[
            Tenant, dict[str, str]
        ] = {}  # by name and alias: why what was wanted may not be called
        self._cache: dict[tuple[object, ...], DesiredPlugin | BlockedPlugin] = {}
        self._manifests: dict[tuple[str, str], Manifest] = {}  # by digest and text: tenants share what is installed
        self._declared_names: dict[tuple[str, str], PluginNames] = {}  # the same, of what its manifest calls itself
        self._neighbourhood_cache: dict[Tenant | None, tuple[tuple[PluginNames, ...], NameIndex]] = {}

    def read(self, store: PluginStore) -> tuple[list[DesiredPlugin], list[BlockedPlugin]]:
        """Every enabled plugin of every tenant, in the version that is in use."""
        versions, grants, aliases, listings, keys = store.database.read(
            lambda tx: (
                current_versions(tx),
                grants_by_tenant(tx),
                all_aliases(tx),
                read_all_tool_records(tx),
                list_trusted_keys(tx),
            )
        )
        trusted = {key.key_id: key.label for key in keys}
        targets = {**BUILT_IN_ALIASES, **aliases}
        known: dict[tuple[object, ...], DesiredPlugin | BlockedPlugin] = {}
        for tenant, theirs in grants.items():
            for name, grant in theirs.items():
                row = versions.get(name)
                if row is None or not grant.enabled:
                    continue
                own = tuple(alias for alias, target in targets.items() if target == name)
                listing = listings.get((tenant, name), ToolRecords())
                # What runs is what was installed: that is checked when it starts.
                standing = describe_signer(row, trusted, intact=True)
                granted = (tenant, name, grant.capabilities)
                key = (*granted, row.digest, row.manifest_text, own, listing.fingerprint, standing)
                known[key] = self._cache.get(key) or self._evaluate(
                    store.for_tenant(tenant), row, grant, own, listing, standing
                )
        beside = self._neighbourhoods(versions, grants, listings)
        known = {key: _with_flags(one, beside) if isinstance(one, DesiredPlugin) else one for key, one in known.items()}
        self._cache = known
        in_use = {(row.digest, row.manifest_text) for row in versions.values()}
        self._declared_names = {key: names for key, names in self._declared_names.items() if key in in_use}
        self._manifests = {key: manifest for key, manifest in self._manifests.items() if key in in_use}
        found = [one for one in known.values() if isinstance(one, DesiredPlugin)]
        unfit = [one for one in known.values() if isinstance(one, BlockedPlugin)]
        self.unavailable_reasons = _unavailable_reasons(grants, unfit, targets)
        return found, unfit

    def _evaluate(
        self,
        store: PluginStore,
        row: VersionRow,
        grant: Grant,
        aliases: tuple[str, ...],
        listing: ToolRecords,
        standing: SignerInfo,
    ) -> DesiredPlugin | BlockedPlugin:
        key = InstanceKey(store.tenant, row.plugin, Digest(row.digest))
        try:
            manifest = self._load_manifest(store, row)
        except PaddockError as error:
            return BlockedPlugin(key, row.version, "invalid manifest", error)
        held = _granted_capabilities(grant)
        granted = tuple(asked for asked in manifest.capabilities if any(covers(have, asked) for have in held))
        # Whoever takes in a new version answers for the default tenant. Others grant what it asks for by themselves.
        if store.tenant != DEFAULT_TENANT and (missing := missing_capabilities(held, requested_capabilities(manifest))):
            return BlockedPlugin(key, row.version, "not granted", grant_required_error(store.tenant, row, missing))
        if store.tenant != DEFAULT_TENANT:
            manifest = replace(manifest, start="lazy")  # there may be many tenants, and most sleep most of the time
        root = ensure_local_files(store, row)
        words = store.database.read(
            lambda tx: load_scan(tx, store.tenant, manifest, root, accepted=True)
        ).scan_own_texts()
        signature = "remote" if isinstance(manifest.runtime, RemoteRuntime) else standing.state.value
        deployment = Deployment(key, manifest, granted, tier=standing.tier, signature=signature)
        if is_mcp_server(manifest):
            entry = build_server_entry(store, deployment, listing, aliases)
            return DesiredPlugin(deployment, replace(entry, tier=standing.tier, signature=signature), listing, words)
        schemas = {
            spec.name: CallableSchemas(load_schema(spec.input_schema, root), load_schema(spec.output_schema, root))
            for spec in manifest.callables
        }
        entry = CatalogueEntry(key, manifest, schemas, aliases, tier=standing.tier, signature=signature)
        return DesiredPlugin(deployment, entry, listing, words)

    def _neighbourhoods(
        self,
        versions: Mapping[str, VersionRow],
        grants: Iterable[Tenant],
        listings: Mapping[tuple[Tenant, str], ToolRecords],
    ) -> dict[Tenant, NameIndex]:
        """The names of all that is installed, as each tenant knows them; anew only where they changed."""
        for row in versions.values():
            if (row.digest, row.manifest_text) not in self._declared_names:
                self._declared_names[row.digest, row.manifest_text] = declared_names(row)
        declared = {
            plugin: self._declared_names[row.digest, row.manifest_text] for plugin, row in sorted(versions.items())
        }
        listed: dict[Tenant, dict[str, ToolRecords]] = {}
        for (tenant, plugin), listing in listings.items():
            listed.setdefault(tenant, {})[plugin] = listing
        # There may be many tenants, and those for whom no server was ever met know the same names.
        shared = self._cached_neighbourhood(None, tuple(declared.values()))
        known: dict[Tenant | None, tuple[tuple[PluginNames, ...], NameIndex]] = {None: shared}
        for tenant in grants:
            if own := listed.get(tenant):
                everybody = (
                    add_listed_tools(names, _listed_names(own.get(plugin))) for plugin, names in declared.items()
                )
                known[tenant] = self._cached_neighbourhood(tenant, tuple(everybody))
        self._neighbourhood_cache = known
        return {tenant: known.get(tenant, shared)[1] for tenant in grants}

    def _cached_neighbourhood(
        self, tenant: Tenant | None, everybody: tuple[PluginNames, ...]
    ) -> tuple[tuple[PluginNames, ...], NameIndex]:
        before = self._neighbourhood_cache.get(tenant)
        return before if before and before[0] == everybody else (everybody, NameIndex(everybody))

    def _load_manifest(self, store: PluginStore, row: VersionRow) -> Manifest:
        known = self._manifests.get((row.digest, row.manifest_text))
        if known is None:
            # All rules once more: a manifest that an older Paddock accepted may not hold for this one.
            files = DirectoryFiles(ensure_local_files(store, row))
            known = read_bytes("paddock.yaml", row.manifest_text.encode(), files).single()
            self._manifests[row.digest, row.manifest_text] = known
        return known


def _listed_names(listing: ToolRecords | None) -> Iterable[str]:
    return (row.name for row in listing.tools if row.standing is not Stands.GONE) if listing else ()


def _with_flags(one: DesiredPlugin, beside: Mapping[Tenant, NameIndex]) -> DesiredPlugin:
    """The same with what is odd about its words, by themselves and beside those of its neighbours."""
    neighbours = beside[one.deployment.key.tenant]
    if one.words is None or one.beside is neighbours:
        return one
    flags = flags_by_callable(one.words.findings + neighbours.find_collisions(one.words))
    entry = one.entry if one.entry.flags == flags else replace(one.entry, flags=flags)
    return replace(one, entry=entry, beside=neighbours)


def _unavailable_reasons(
    grants: Mapping[Tenant, Mapping[str, Grant]], unfit: Iterable[BlockedPlugin], targets: Mapping[str, str]
) -> dict[Tenant, dict[str, str]]:
    """By tenant, and by name and alias: why a daemon disabled a plugin, or does not run it."""
    lost = {
        tenant: {name: grant.given_up for name, grant in theirs.items() if grant.given_up and not grant.enabled}
        for tenant, theirs in grants.items()
    }
    for one in unfit:
        if isinstance(one.error, NeedsConsent):
            asked = ", ".join(one.error.details["capabilities"])
            lost[one.key.tenant][one.key.plugin] = f"asks for {asked}, which {one.key.tenant} has not granted"
    for own in lost.values():
        own |= {alias: own[name] for alias, name in targets.items() if name in own}
    return lost


def _granted_capabilities(grant: Grant) -> list[Capability]:
    """What was granted. A grant that no longer parses grants nothing."""
    held: list[Capability] = []
    for text in grant.capabilities:
        try:
            held.append(parse_capability(text))
        except InvalidCapability:
            continue
    return held
