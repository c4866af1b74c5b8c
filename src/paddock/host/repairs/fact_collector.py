"""Gathers the facts of a tenant: rows on a thread of the store, what runs as the supervisor has it, and the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, NamedTuple

from paddock.config.local_file import PluginEntry, read_entries
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.idempotency.resolve import count_in_doubt
from paddock.host.observability.health import HostHealth
from paddock.host.repairs.facts import (
    ApiKeyFacts,
    HostProblem,
    MissingSecret,
    PluginFacts,
    RepairFacts,
    UnknownOutcomeFacts,
    WebhookFacts,
    WrappingKeyFacts,
)
from paddock.host.repairs.host_probe import HostProbe
from paddock.host.repairs.ignore_list import IgnoredRepair, read_ignored
from paddock.host.secrets.secret_service import read_wrapping_key_status
from paddock.manifest.model import Manifest
from paddock.plugins.install.config_secrets import find_unset_references
from paddock.plugins.manage.enable import unset_required_fields
from paddock.plugins.package.tree import fingerprint
from paddock.plugins.store.listing import InstalledPlugin, InstalledState, list_plugins
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.principals.api_keys import list_keys
from paddock.secrets.requirements import SecretScope, required_secrets
from paddock.secrets.rows import list_secrets
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.transaction import Transaction
from paddock.webhooks import dead_letters, webhook


def missing_shared_secrets(manifest: Manifest, have: AbstractSet[str]) -> tuple[MissingSecret, ...]:
    """By name. What each person has to bring for themselves is not among them: see `accounts`.

    Args:
        manifest: What the plugin declares.
        have: The names of the tenant's own secrets that are set.
    """
    wanted: dict[str, list[str]] = {}
    shared: set[str] = set()  # those that only the tenant can have
    for auth in manifest.operation_auth:
        for name, order in required_secrets(manifest, auth.operation).items():
            if SecretScope.SYSTEM in order and name not in have:
                wanted.setdefault(name, []).append(auth.operation)
                if SecretScope.USER not in order:
                    shared.add(name)
    return tuple(MissingSecret(name, tuple(wanted[name]), name not in shared) for name in sorted(wanted))


RuntimeLookup = Callable[[str, Tenant], dict[str, Any] | None]
"""How a tenant's plugin is doing, as data; see `host.runtime_value`."""


class CollectedFacts(NamedTuple):
    """The facts of one moment, and what people said to leave alone."""

    facts: RepairFacts
    ignored: dict[str, IgnoredRepair]


class FactCollector:
    """Takes looks.

    Args:
        views: Where rows are read, which holds up nobody.
        runtime: How plugins are doing.
        judge: Told of each plugin that was seen, by name, digest and state: one whose files changed is ended.
        catalogue: What a tenant can call, with the manifests of what it enabled.
        condition: How the host is doing.
        machine: What the machine gives.
        sealed_with: What secrets are sealed under.
        environ: The variables that this host has.
        clock: The time.
    """

    def __init__(
        self,
        views: StoreThread,
        runtime: RuntimeLookup,
        judge: Callable[[str, str, str], None],
        catalogue: Callable[[Tenant], Catalogue],
        condition: HostHealth,
        machine: HostProbe,
        sealed_with: WrappingKeys,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._views = views
        self._runtime = runtime
        self._restart_if_modified = judge
        self._catalogue = catalogue
        self._health = condition
        self._host_probe = machine
        self._sealed_with = sealed_with
        self._environ = environ
        self._clock = clock

    async def collect(self, tenant: Tenant, *, anew: bool = False) -> CollectedFacts:
        """What is so right now; the machine as it was seen last, or with `anew` as it is.

        Raises:
            PaddockError: the store cannot be read.
        """
        manifests = {str(entry.manifest.name): entry.manifest for entry in self._catalogue(tenant).entries()}
        machine = await self._host_probe.latest(anew=anew) if tenant == DEFAULT_TENANT else None
        facts, listed, said = await self._views.run(lambda store: self._read_store(store, manifests), tenant)
        for one in listed.values():
            if one.version is not None:
                self._restart_if_modified(one.plugin.name, one.version.digest, one.state)
        plugins = tuple(
            self._with_runtime(one, listed[one.name], tenant)
            for one in facts.plugins
            if tenant == DEFAULT_TENANT or listed[one.name].grant is not None
        )
        troubles = (*facts.troubles, *self._host_problems(tenant))
        return CollectedFacts(replace(facts, plugins=plugins, troubles=troubles, machine=machine), said)

    def _with_runtime(self, one: PluginFacts, listed: InstalledPlugin, tenant: Tenant) -> PluginFacts:
        runtime = self._runtime(one.name, tenant)
        if runtime is None:
            return one
        return replace(
            one,
            runtime=runtime["state"],
            reason=runtime["reason"],
            hint=runtime["hint"],
            code=runtime["error_code"] or "",
            unused_config=runtime["unused_config"],
            given_up=listed.given_up,
        )

    def _host_problems(self, tenant: Tenant) -> tuple[HostProblem, ...]:
        """Of the host where it is the default tenant, which operates it; of others only what keeps their calls out."""
        ledger, ours = self._health.ledger, tenant == DEFAULT_TENANT
        found = [
            ("ledger", ledger.failing, True),
            *(("ledger", error, True) for name, error in sorted(ledger.broken.items()) if ours or name == tenant),
            ("checkpoints", ledger.unsigned if ours else None, False),
            ("rules", self._health.rules.load_error if ours else None, False),
        ]
        return tuple(_host_problem(about, error, refuses) for about, error, refuses in found if error is not None)

    # --- on the store's thread ----------------------------------------------------------------------------------------

    def _read_store(
        self, store: PluginStore, manifests: Mapping[str, Manifest]
    ) -> tuple[RepairFacts, dict[str, InstalledPlugin], dict[str, IgnoredRepair]]:
        listed, tenant, now = list_plugins(store), store.tenant, self._clock.now()
        troubles: tuple[HostProblem, ...] = ()
        entries: Mapping[str, PluginEntry] = {}
        try:
            entries = read_entries(store.config_file)
        except PaddockError as error:
            troubles = (_host_problem("configuration", error, refuses=False),)

        def unit(tx: Transaction) -> tuple[RepairFacts, dict[str, IgnoredRepair]]:
            working = [one for one in list_keys(tx, tenant) if one.state(now) in ("live", "expired")]
            doubts = count_in_doubt(tx, tenant)
            facts = RepairFacts(
                now,
                tenant,
                webhooks=tuple(_webhook_facts(tx, one) for one in webhook.list_webhooks(tx, tenant)),
                keys=tuple(
                    ApiKeyFacts(one.id, one.label, one.owner, one.expires_at, one.last_used_at)
                    for one in working
                    if one.expires_at is not None
                ),
                doubts=UnknownOutcomeFacts(*doubts),
                troubles=troubles,
            )
            return facts, read_ignored(tx, tenant)

        facts, said = store.database.read(unit)
        have = {one.name for one in store.database.read(lambda tx: list_secrets(tx, tenant, ""))}
        plugins: list[PluginFacts] = []
        for one in listed:
            plugin, manifest = _plugin_facts(one, store), manifests.get(one.plugin.name)
            if manifest is not None:
                entry = entries.get(one.plugin.name)
                unset = find_unset_references(store, entry, self._environ) if entry is not None else {}
                plugin = replace(
                    plugin,
                    unfilled=tuple(unset_required_fields(manifest, entry)),
                    unset={field: tuple(problem.message for problem in found) for field, found in unset.items()},
                    secrets=missing_shared_secrets(manifest, have),
                )
            plugins.append(plugin)
        seal = self._wrapping_key_facts(store) if tenant == DEFAULT_TENANT else WrappingKeyFacts()
        return replace(facts, plugins=tuple(plugins), seal=seal), {str(one.plugin.name): one for one in listed}, said

    def _wrapping_key_facts(self, store: PluginStore) -> WrappingKeyFacts:
        found = read_wrapping_key_status(store, self._sealed_with)
        wrong = found.trouble
        return WrappingKeyFacts(
            found.key_id, wrong.message if wrong else "", wrong.hint if wrong else "", found.replaced
        )


def _plugin_facts(one: InstalledPlugin, store: PluginStore) -> PluginFacts:
    return PluginFacts(
        str(one.plugin.name),
        one.version.version if one.version else one.plugin.current_version,
        one.state.value,
        enabled=bool(one.grant and one.grant.enabled),
        pinned=one.plugin.pinned_version,
        given_up=one.given_up,
        waiting=one.waiting,
        files=_files_fingerprint(one, store) if one.state is InstalledState.MODIFIED else "",
    )


def _files_fingerprint(one: InstalledPlugin, store: PluginStore) -> str:
    """Of changed files: which change it is, as far as a listing of them tells."""
    if one.version is None:
        return ""
    try:
        seen = fingerprint(store.version_root(one.version.plugin, one.version.version))
    except OSError:
        return "unreadable"
    return hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()


def _webhook_facts(tx: Transaction, hook: webhook.Webhook) -> WebhookFacts:
    dead = dead_letters.count(tx, hook.tenant, hook.id)
    last = dead_letters.last_seq(tx, hook.tenant, hook.id) if dead else 0
    return WebhookFacts(
        hook.id, hook.label, hook.enabled, hook.disabled_why, hook.attempts, hook.reason, dead, last_dead=last
    )


def _host_problem(about: str, error: PaddockError, refuses: bool) -> HostProblem:
    return HostProblem(about, error.error_code, error.message, error.hint, refuses)
