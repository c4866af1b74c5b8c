"""What should be running: the plugins that the rows say are enabled, for each tenant. Blocks; for the store thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from paddock.core.errors import NeedsConsent, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Digest, Tenant
from paddock.gate.catalogue import Entry, Schemas
from paddock.host.listings import Listing, listed_entry, read_listings
from paddock.manifest.asked import asked_of
from paddock.manifest.capability import BadCapability, Capability, covers, parse, uncovered
from paddock.manifest.model import Manifest, RemoteRuntime
from paddock.manifest.read import DirectoryFiles, read_bytes
from paddock.plugins.definitions.flagging.hints import flags_by_callable
from paddock.plugins.definitions.flagging.neighbours import Names, Neighbourhood
from paddock.plugins.definitions.flagging.reading import OwnWords
from paddock.plugins.definitions.flagging.surveying import declared_names, survey_plugin, with_listed
from paddock.plugins.definitions.standing import Standing as Stands
from paddock.plugins.granting import not_granted
from paddock.plugins.local_copy import local_root
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import BUILT_IN_ALIASES, schema_value
from paddock.plugins.rows import Grant, VersionRow, all_aliases, current_versions, grants_of_all
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
    words: OwnWords | None = None  # what it says to models; None: nobody looks, for it is the application's own
    beside: Neighbourhood | None = None  # whom its entry's flags were worked out beside


@dataclass(frozen=True, slots=True)
class Unfit:
    """One that they want and that must not run as it is now."""

    key: InstanceKey
    version: str
    why: str
    error: PaddockError

    def status(self) -> Status:
        """How it is doing: not at all, and why."""
        return Status(
            self.key,
            self.version,
            State.DISABLED,
            reason=f"{self.why}: {self.error.message}",
            hint=self.error.hint,
            error_code=self.error.error_code,
        )


class EnabledPlugins:
    """Reads them again and again; what did not change since the last time is not worked out again."""

    def __init__(self) -> None:
        self.lost: dict[Tenant, dict[str, str]] = {}  # by name and alias: why what was wanted may not be called
        self._known: dict[tuple[object, ...], Enabled | Unfit] = {}
        self._manifests: dict[tuple[str, str], Manifest] = {}  # by digest and text: tenants share what is installed
        self._names: dict[tuple[str, str], Names] = {}  # the same, of what its manifest calls itself
        self._neighbours: dict[Tenant | None, tuple[tuple[Names, ...], Neighbourhood]] = {}

    def read(self, store: PluginStore) -> tuple[list[Enabled], list[Unfit]]:
        """Every enabled plugin of every tenant, in the version that is in use."""
        versions, grants, aliases, listings, keys = store.database.read(
            lambda tx: (current_versions(tx), grants_of_all(tx), all_aliases(tx), read_listings(tx), trusted_keys(tx))
        )
        trusted = {key.key_id: key.label for key in keys}
        targets = {**BUILT_IN_ALIASES, **aliases}
        known: dict[tuple[object, ...], Enabled | Unfit] = {}
        for tenant, theirs in grants.items():
            for name, grant in theirs.items():
                row = versions.get(name)
                if row is None or not grant.enabled:
                    continue
                own = tuple(alias for alias, target in targets.items() if target == name)
                listing = listings.get((tenant, name), Listing())
                # What runs is what was installed: that is checked when it starts.
                standing = standing_of(row, trusted, intact=True)
                granted = (tenant, name, grant.capabilities)
                key = (*granted, row.digest, row.manifest_text, own, listing.fingerprint, standing)
                known[key] = self._known.get(key) or self._read(store.of(tenant), row, grant, own, listing, standing)
        beside = self._neighbourhoods(versions, grants, listings)
        known = {key: _flagged(one, beside) if isinstance(one, Enabled) else one for key, one in known.items()}
        self._known = known
        in_use = {(row.digest, row.manifest_text) for row in versions.values()}
        self._names = {key: names for key, names in self._names.items() if key in in_use}
        self._manifests = {key: manifest for key, manifest in self._manifests.items() if key in in_use}
        found = [one for one in known.values() if isinstance(one, Enabled)]
        unfit = [one for one in known.values() if isinstance(one, Unfit)]
        self.lost = _lost(grants, unfit, targets)
        return found, unfit

    def _read(
        self,
        store: PluginStore,
        row: VersionRow,
        grant: Grant,
        aliases: tuple[str, ...],
        listing: Listing,
        standing: Standing,
    ) -> Enabled | Unfit:
        key = InstanceKey(store.tenant, row.plugin, Digest(row.digest))
        try:
            manifest = self._manifest(store, row)
        except PaddockError as error:
            return Unfit(key, row.version, "invalid manifest", error)
        held = _held(grant)
        granted = tuple(asked for asked in manifest.capabilities if any(covers(have, asked) for have in held))
        # Whoever takes in a new version answers for the default tenant. Others grant what it asks for by themselves.
        if store.tenant != DEFAULT_TENANT and (missing := uncovered(held, asked_of(manifest))):
            return Unfit(key, row.version, "not granted", not_granted(store.tenant, row, missing))
        if store.tenant != DEFAULT_TENANT:
            manifest = replace(manifest, start="lazy")  # there may be many tenants, and most sleep most of the time
        root = local_root(store, row)
        words = store.database.read(
            lambda tx: survey_plugin(tx, store.tenant, manifest, root, accepted=True)
        ).own_words()
        signature = "remote" if isinstance(manifest.runtime, RemoteRuntime) else standing.state.value
        deployment = Deployment(key, manifest, granted, tier=standing.tier, signature=signature)
        if speaks_mcp(manifest):
            entry = listed_entry(store, deployment, listing, aliases)
            return Enabled(deployment, replace(entry, tier=standing.tier, signature=signature), listing, words)
        schemas = {
            spec.name: Schemas(schema_value(spec.input_schema, root), schema_value(spec.output_schema, root))
            for spec in manifest.callables
        }
        entry = Entry(key, manifest, schemas, aliases, tier=standing.tier, signature=signature)
        return Enabled(deployment, entry, listing, words)

    def _neighbourhoods(
        self,
        versions: Mapping[str, VersionRow],
        grants: Iterable[Tenant],
        listings: Mapping[tuple[Tenant, str], Listing],
    ) -> dict[Tenant, Neighbourhood]:
        """The names of all that is installed, as each tenant knows them; anew only where they changed."""
        for row in versions.values():
            if (row.digest, row.manifest_text) not in self._names:
                self._names[row.digest, row.manifest_text] = declared_names(row)
        declared = {plugin: self._names[row.digest, row.manifest_text] for plugin, row in sorted(versions.items())}
        listed: dict[Tenant, dict[str, Listing]] = {}
        for (tenant, plugin), listing in listings.items():
            listed.setdefault(tenant, {})[plugin] = listing
        # There may be many tenants, and those for whom no server was ever met know the same names.
        shared = self._beside(None, tuple(declared.values()))
        known: dict[Tenant | None, tuple[tuple[Names, ...], Neighbourhood]] = {None: shared}
        for tenant in grants:
            if own := listed.get(tenant):
                everybody = (with_listed(names, _listed(own.get(plugin))) for plugin, names in declared.items())
                known[tenant] = self._beside(tenant, tuple(everybody))
        self._neighbours = known
        return {tenant: known.get(tenant, shared)[1] for tenant in grants}

    def _beside(self, tenant: Tenant | None, everybody: tuple[Names, ...]) -> tuple[tuple[Names, ...], Neighbourhood]:
        before = self._neighbours.get(tenant)
        return before if before and before[0] == everybody else (everybody, Neighbourhood(everybody))

    def _manifest(self, store: PluginStore, row: VersionRow) -> Manifest:
        known = self._manifests.get((row.digest, row.manifest_text))
        if known is None:
            # All rules once more: a manifest that an older Paddock accepted may not hold for this one.
            files = DirectoryFiles(local_root(store, row))
            known = read_bytes("paddock.yaml", row.manifest_text.encode(), files).single()
            self._manifests[row.digest, row.manifest_text] = known
        return known


def _listed(listing: Listing | None) -> Iterable[str]:
    return (row.name for row in listing.tools if row.standing is not Stands.GONE) if listing else ()


def _flagged(one: Enabled, beside: Mapping[Tenant, Neighbourhood]) -> Enabled:
    """The same with what is odd about its words, by themselves and beside those of its neighbours."""
    neighbours = beside[one.deployment.key.tenant]
    if one.words is None or one.beside is neighbours:
        return one
    flags = flags_by_callable(one.words.hints + neighbours.hints_about(one.words))
    entry = one.entry if one.entry.flags == flags else replace(one.entry, flags=flags)
    return replace(one, entry=entry, beside=neighbours)


def _lost(
    grants: Mapping[Tenant, Mapping[str, Grant]], unfit: Iterable[Unfit], targets: Mapping[str, str]
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


def _held(grant: Grant) -> list[Capability]:
    """What was granted. A grant that no longer parses grants nothing."""
    held: list[Capability] = []
    for text in grant.capabilities:
        try:
            held.append(parse(text))
        except BadCapability:
            continue
    return held
