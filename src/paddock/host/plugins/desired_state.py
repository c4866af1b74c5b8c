"""Desired state: which plugins should run for each tenant, as the database says. Blocking; for the store thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import NeedsConsent, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Digest, Tenant
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.host.plugins.tool_records import ToolRecords, build_server_entry, read_all_tool_records
from paddock.manifest.capability import Capability, InvalidCapability, covers, missing_capabilities, parse_capability
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.read import DirectoryFiles, read_bytes
from paddock.manifest.rules.readiness import find_disallowed_hosts
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.manage.enable import domain_not_allowed_error, grant_required_error
from paddock.plugins.store.lookup import BUILT_IN_ALIASES, load_schema
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import Grant, VersionRow, all_aliases, current_versions, grants_by_tenant
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import DefinitionStatus
from paddock.plugins.tool_pinning.scan.collisions import NameIndex, PluginNames
from paddock.plugins.tool_pinning.scan.definition_text import TextScanResult
from paddock.plugins.tool_pinning.scan.findings import flags_by_callable
from paddock.plugins.tool_pinning.scan.scan import add_listed_tools, declared_names, load_scan
from paddock.plugins.tool_pinning.tool_trust import apply_trust, trust_in_force
from paddock.plugins.trust.trusted_keys import SignerInfo, describe_signer, list_trusted_keys
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.lifecycle import PluginState


class DesiredPlugin(Struct, frozen=True):
    """A plugin that is enabled and may run."""

    deployment: Deployment
    entry: CatalogueEntry
    tool_records: ToolRecords  # its discovered tools, if a server lists them
    text_scan: TextScanResult | None = None  # the scan of its texts for models; None: embedded plugins are not scanned
    name_index: NameIndex | None = None  # the index that its entry's collision flags were computed against


class BlockedPlugin(Struct, frozen=True):
    """A plugin that is enabled but must not run as it is now."""

    key: InstanceKey
    version: str
    reason: str
    error: PaddockError

    def status(self) -> PluginStatus:
        """Return a disabled status with the reason."""
        return PluginStatus(
            self.key,
            self.version,
            PluginState.DISABLED,
            reason=f"{self.reason}: {self.error.message}",
            hint=self.error.hint,
            action=self.error.action,
            error_code=self.error.error_code,
        )


class DesiredState:
    """Reads the desired state repeatedly; plugins unchanged since the last read are not evaluated again."""

    def __init__(self) -> None:
        self.unavailable_reasons: dict[Tenant, dict[str, str]] = {}  # by name and alias: why a plugin cannot be called
        self._cache: dict[tuple[object, ...], DesiredPlugin | BlockedPlugin] = {}
        self._manifests: dict[tuple[str, str], Manifest] = {}  # by digest and text: tenants share installed plugins
        self._declared_names: dict[tuple[str, str], PluginNames] = {}  # by digest and text: the names in the manifest
        self._neighbourhood_cache: dict[Tenant | None, tuple[tuple[PluginNames, ...], NameIndex]] = {}

    def read(self, store: PluginStore) -> tuple[list[DesiredPlugin], list[BlockedPlugin]]:
        """Return every enabled plugin of every tenant in its current version, and those that are blocked."""
        versions, grants, aliases, tool_records, keys = store.database.read(
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
        evaluated: dict[tuple[object, ...], DesiredPlugin | BlockedPlugin] = {}
        for tenant, tenant_grants in grants.items():
            for name, grant in tenant_grants.items():
                row = versions.get(name)
                if row is None or not grant.enabled:
                    continue
                plugin_aliases = tuple(alias for alias, target in targets.items() if target == name)
                tools = tool_records.get((tenant, name), ToolRecords())
                # The digest of what runs is checked when it starts, so count as intact here.
                signer = describe_signer(row, trusted, intact=True)
                identity = (tenant, name, grant.capabilities)
                key = (*identity, row.digest, row.manifest_text, plugin_aliases, tools.fingerprint, signer)
                evaluated[key] = self._cache.get(key) or self._evaluate(
                    store.for_tenant(tenant), row, grant, plugin_aliases, tools, signer
                )
        indexes = self._neighbourhoods(versions, grants, tool_records)
        evaluated = {
            key: _with_flags(plugin, indexes) if isinstance(plugin, DesiredPlugin) else plugin
            for key, plugin in evaluated.items()
        }
        self._cache = evaluated
        in_use = {(row.digest, row.manifest_text) for row in versions.values()}
        self._declared_names = {key: names for key, names in self._declared_names.items() if key in in_use}
        self._manifests = {key: manifest for key, manifest in self._manifests.items() if key in in_use}
        desired = [plugin for plugin in evaluated.values() if isinstance(plugin, DesiredPlugin)]
        blocked = [plugin for plugin in evaluated.values() if isinstance(plugin, BlockedPlugin)]
        self.unavailable_reasons = _unavailable_reasons(grants, blocked, targets)
        return desired, blocked

    def _evaluate(
        self,
        store: PluginStore,
        row: VersionRow,
        grant: Grant,
        aliases: tuple[str, ...],
        tool_records: ToolRecords,
        signer: SignerInfo,
    ) -> DesiredPlugin | BlockedPlugin:
        key = InstanceKey(store.tenant, row.plugin, Digest(row.digest))
        try:
            manifest = self._load_manifest(store, row)
        except PaddockError as error:
            return BlockedPlugin(key, row.version, "invalid manifest", error)
        grants = _granted_capabilities(grant)
        granted = tuple(wanted for wanted in manifest.capabilities if any(covers(have, wanted) for have in grants))
        # Consent to a new version covers the default tenant. Other tenants grant its requested capabilities themselves.
        if store.tenant != DEFAULT_TENANT and (
            missing := missing_capabilities(grants, requested_capabilities(manifest))
        ):
            return BlockedPlugin(key, row.version, "not granted", grant_required_error(store.tenant, row, missing))
        if disallowed := find_disallowed_hosts(manifest, store.allowed_domains):
            return BlockedPlugin(key, row.version, "not allowed", domain_not_allowed_error(row.plugin, disallowed))
        if store.tenant != DEFAULT_TENANT:
            manifest = replace(manifest, start="lazy")  # there may be many tenants, and most are idle most of the time
        root = ensure_local_files(store, row)
        text_scan = store.database.read(
            lambda tx: load_scan(tx, store.tenant, manifest, root, accepted=True)
        ).scan_own_texts()
        signature = "remote" if isinstance(manifest.runtime, RemoteRuntime) else signer.state.value
        deployment = Deployment(key, manifest, granted, tier=signer.tier, signature=signature)
        if is_mcp_server(manifest):
            entry = build_server_entry(store, deployment, tool_records, aliases)
            return DesiredPlugin(
                deployment, replace(entry, tier=signer.tier, signature=signature), tool_records, text_scan
            )
        schemas = {
            spec.name: CallableSchemas(load_schema(spec.input_schema, root), load_schema(spec.output_schema, root))
            for spec in manifest.callables
        }
        trust = trust_in_force(tool_records.trust, row.digest, None)
        callables = tuple(apply_trust(spec, trust) for spec in manifest.callables)
        entry = CatalogueEntry(
            key,
            replace(manifest, callables=callables),
            schemas,
            aliases,
            tier=signer.tier,
            signature=signature,
            trust=trust,
        )
        return DesiredPlugin(deployment, entry, tool_records, text_scan)

    def _neighbourhoods(
        self,
        versions: Mapping[str, VersionRow],
        grants: Iterable[Tenant],
        tool_records: Mapping[tuple[Tenant, str], ToolRecords],
    ) -> dict[Tenant, NameIndex]:
        """Build the index of all installed names, as each tenant sees them; rebuilt only where they changed."""
        for row in versions.values():
            if (row.digest, row.manifest_text) not in self._declared_names:
                self._declared_names[row.digest, row.manifest_text] = declared_names(row)
        declared = {
            plugin: self._declared_names[row.digest, row.manifest_text] for plugin, row in sorted(versions.items())
        }
        by_tenant: dict[Tenant, dict[str, ToolRecords]] = {}
        for (tenant, plugin), listing in tool_records.items():
            by_tenant.setdefault(tenant, {})[plugin] = listing
        # There may be many tenants, and those without discovered servers all see the same names.
        shared = self._cached_neighbourhood(None, tuple(declared.values()))
        indexes: dict[Tenant | None, tuple[tuple[PluginNames, ...], NameIndex]] = {None: shared}
        for tenant in grants:
            if tenant_records := by_tenant.get(tenant):
                all_names = (
                    add_listed_tools(names, _listed_names(tenant_records.get(plugin)))
                    for plugin, names in declared.items()
                )
                indexes[tenant] = self._cached_neighbourhood(tenant, tuple(all_names))
        self._neighbourhood_cache = indexes
        return {tenant: indexes.get(tenant, shared)[1] for tenant in grants}

    def _cached_neighbourhood(
        self, tenant: Tenant | None, all_names: tuple[PluginNames, ...]
    ) -> tuple[tuple[PluginNames, ...], NameIndex]:
        cached = self._neighbourhood_cache.get(tenant)
        return cached if cached and cached[0] == all_names else (all_names, NameIndex(all_names))

    def _load_manifest(self, store: PluginStore, row: VersionRow) -> Manifest:
        manifest = self._manifests.get((row.digest, row.manifest_text))
        if manifest is None:
            # Validated again: a manifest that an older Paddock accepted may be invalid for this one.
            files = DirectoryFiles(ensure_local_files(store, row))
            manifest = read_bytes("paddock.yaml", row.manifest_text.encode(), files).single()
            self._manifests[row.digest, row.manifest_text] = manifest
        return manifest


def _listed_names(tool_records: ToolRecords | None) -> Iterable[str]:
    return (row.name for row in tool_records.tools if row.standing is not DefinitionStatus.GONE) if tool_records else ()


def _with_flags(plugin: DesiredPlugin, indexes: Mapping[Tenant, NameIndex]) -> DesiredPlugin:
    """Return the plugin with its scan findings: in its own texts, and collisions with names of other plugins."""
    index = indexes[plugin.deployment.key.tenant]
    if plugin.text_scan is None or plugin.name_index is index:
        return plugin
    flags = flags_by_callable(plugin.text_scan.findings + index.find_collisions(plugin.text_scan))
    entry = plugin.entry if plugin.entry.flags == flags else replace(plugin.entry, flags=flags)
    return replace(plugin, entry=entry, name_index=index)


def _unavailable_reasons(
    grants: Mapping[Tenant, Mapping[str, Grant]], blocked: Iterable[BlockedPlugin], targets: Mapping[str, str]
) -> dict[Tenant, dict[str, str]]:
    """Return, by tenant and by name or alias, why a plugin was disabled by a daemon or does not run."""
    reasons = {
        tenant: {name: grant.given_up for name, grant in tenant_grants.items() if grant.given_up and not grant.enabled}
        for tenant, tenant_grants in grants.items()
    }
    for plugin in blocked:
        if isinstance(plugin.error, NeedsConsent):
            requested = ", ".join(plugin.error.details["capabilities"])
            reasons[plugin.key.tenant][plugin.key.plugin] = (
                f"asks for {requested}, which {plugin.key.tenant} has not granted"
            )
        elif plugin.error.error_code == "plugin.domain_not_allowed":
            reasons[plugin.key.tenant][plugin.key.plugin] = "requests hosts outside plugins.allowed_domains"
    for tenant_reasons in reasons.values():
        tenant_reasons |= {alias: tenant_reasons[name] for alias, name in targets.items() if name in tenant_reasons}
    return reasons


def _granted_capabilities(grant: Grant) -> list[Capability]:
    """Parse the granted capabilities. A grant that no longer parses grants nothing."""
    granted: list[Capability] = []
    for text in grant.capabilities:
        try:
            granted.append(parse_capability(text))
        except InvalidCapability:
            continue
    return granted
