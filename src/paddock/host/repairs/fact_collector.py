"""Collects a tenant's facts for repair detection: database rows, plugin runtime status, and the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec.structs import replace

from paddock.config.local_file import PluginEntry, read_entries
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.idempotency.record_queries import count_in_doubt
from paddock.host.observability.health import HostHealth
from paddock.host.plugins.processes import PluginProcesses
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
from paddock.plugins.manage.start_requirements import unset_required_fields
from paddock.plugins.package.tree import fingerprint
from paddock.plugins.store.listing import InstalledPlugin, InstalledState, list_plugins
from paddock.plugins.store.rows import given_up_times
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.principals.api_keys import list_keys
from paddock.secrets.requirements import SecretScope, required_secrets
from paddock.secrets.rows import list_secrets
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.transaction import Transaction
from paddock.webhooks import dead_letters, webhook


def missing_shared_secrets(manifest: Manifest, available: AbstractSet[str]) -> tuple[MissingSecret, ...]:
    """List unset shared secrets by name. Secrets that each person sets for themselves are excluded: see `accounts`.

    Args:
        manifest: The plugin's manifest.
        available: The names of the tenant's own secrets that are set.
    """
    operations_by_secret: dict[str, list[str]] = {}
    tenant_only: set[str] = set()  # secrets that have no personal alternative
    for auth in manifest.operation_auth:
        for name, scopes in required_secrets(manifest, auth.operation).items():
            if SecretScope.SYSTEM in scopes and name not in available:
                operations_by_secret.setdefault(name, []).append(auth.operation)
                if SecretScope.USER not in scopes:
                    tenant_only.add(name)
    return tuple(
        MissingSecret(name, tuple(operations_by_secret[name]), name not in tenant_only)
        for name in sorted(operations_by_secret)
    )


class CollectedFacts(NamedTuple):
    """The facts of one moment, and the repairs that people chose to ignore."""

    facts: RepairFacts
    ignored: dict[str, IgnoredRepair]


class FactCollector:
    """Collects facts.

    Args:
        views: The plugin store, for reads.
        processes: The processes of plugins; one whose plugin's files were modified is restarted.
        catalogue: Returns a tenant's catalogue, with the manifests of enabled plugins.
        health: The health of the host.
        host_probe: Probes the machine.
        wrapping_keys: The keys that secrets are sealed under.
        environ: The host's environment variables.
        clock: The time.
    """

    def __init__(
        self,
        views: StoreThread,
        processes: PluginProcesses,
        catalogue: Callable[[Tenant], Catalogue],
        health: HostHealth,
        host_probe: HostProbe,
        wrapping_keys: WrappingKeys,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._views = views
        self._processes = processes
        self._catalogue = catalogue
        self._health = health
        self._host_probe = host_probe
        self._wrapping_keys = wrapping_keys
        self._environ = environ
        self._clock = clock

    async def collect(self, tenant: Tenant, *, anew: bool = False) -> CollectedFacts:
        """Collect the facts; those of the machine may be cached unless `anew`.

        Raises:
            PaddockError: the store cannot be read.
        """
        manifests = {str(entry.manifest.name): entry.manifest for entry in self._catalogue(tenant).entries()}
        machine = await self._host_probe.latest(anew=anew) if tenant == DEFAULT_TENANT else None
        facts, installed, ignored = await self._views.run(lambda store: self._read_store(store, manifests), tenant)
        for plugin in installed.values():
            if plugin.version is not None:
                self._processes.restart_if_modified(plugin.plugin.name, plugin.version.digest, plugin.state)
        plugins = tuple(
            self._with_runtime(plugin, installed[plugin.name], tenant)
            for plugin in facts.plugins
            if tenant == DEFAULT_TENANT or installed[plugin.name].grant is not None
        )
        problems = (*facts.host_problems, *self._host_problems(tenant))
        return CollectedFacts(replace(facts, plugins=plugins, host_problems=problems, machine=machine), ignored)

    def _with_runtime(self, facts: PluginFacts, installed: InstalledPlugin, tenant: Tenant) -> PluginFacts:
        runtime = self._processes.runtime_status(facts.name, tenant)
        if runtime is None:
            return facts
        return replace(
            facts,
            runtime=runtime["state"],
            reason=runtime["reason"],
            hint=runtime["hint"],
            code=runtime["error_code"] or "",
            unused_config=runtime["unused_config"],
            given_up=installed.given_up,
        )

    def _host_problems(self, tenant: Tenant) -> tuple[HostProblem, ...]:
        """Return problems of the host: all for the default tenant, which operates it; else only what stops calls."""
        ledger, operates_host = self._health.ledger, tenant == DEFAULT_TENANT
        problems = [
            ("ledger", ledger.failing, True),
            *(
                ("ledger", error, True)
                for name, error in sorted(ledger.broken.items())
                if operates_host or name == tenant
            ),
            ("checkpoints", ledger.unsigned if operates_host else None, False),
            ("rules", self._health.rules.load_error if operates_host else None, False),
        ]
        return tuple(
            _host_problem(subject, error, rejects_calls)
            for subject, error, rejects_calls in problems
            if error is not None
        )

    # --- on the store's thread ----------------------------------------------------------------------------------------

    def _read_store(
        self, store: PluginStore, manifests: Mapping[str, Manifest]
    ) -> tuple[RepairFacts, dict[str, InstalledPlugin], dict[str, IgnoredRepair]]:
        installed, tenant, now = list_plugins(store), store.tenant, self._clock.now()
        problems: tuple[HostProblem, ...] = ()
        entries: Mapping[str, PluginEntry] = {}
        try:
            entries = read_entries(store.config_file)
        except PaddockError as error:
            problems = (_host_problem("configuration", error, rejects_calls=False),)

        def query(tx: Transaction) -> tuple[RepairFacts, dict[str, IgnoredRepair]]:
            usable_keys = [key for key in list_keys(tx, tenant) if key.state(now) in ("live", "expired")]
            in_doubt = count_in_doubt(tx, tenant)
            facts = RepairFacts(
                now,
                tenant,
                webhooks=tuple(_webhook_facts(tx, hook) for hook in webhook.list_webhooks(tx, tenant)),
                keys=tuple(
                    ApiKeyFacts(key.id, key.label, key.owner, key.expires_at, key.last_used_at)
                    for key in usable_keys
                    if key.expires_at is not None
                ),
                unknown_outcomes=UnknownOutcomeFacts(*in_doubt),
                host_problems=problems,
            )
            return facts, read_ignored(tx, tenant)

        facts, ignored = store.database.read(query)
        times = store.database.read(lambda tx: given_up_times(tx, tenant))
        secret_names = {secret.name for secret in store.database.read(lambda tx: list_secrets(tx, tenant, ""))}
        plugins: list[PluginFacts] = []
        for row in installed:
            plugin, manifest = _plugin_facts(row, times, store), manifests.get(row.plugin.name)
            if manifest is not None:
                entry = entries.get(row.plugin.name)
                unset = find_unset_references(store, entry, self._environ) if entry is not None else {}
                plugin = replace(
                    plugin,
                    unfilled=tuple(unset_required_fields(manifest, entry)),
                    unset={
                        field: tuple(problem.message for problem in field_problems)
                        for field, field_problems in unset.items()
                    },
                    secrets=missing_shared_secrets(manifest, secret_names),
                )
            plugins.append(plugin)
        wrapping_key = self._wrapping_key_facts(store) if tenant == DEFAULT_TENANT else WrappingKeyFacts()
        return (
            replace(facts, plugins=tuple(plugins), wrapping_key=wrapping_key),
            {str(row.plugin.name): row for row in installed},
            ignored,
        )

    def _wrapping_key_facts(self, store: PluginStore) -> WrappingKeyFacts:
        status = read_wrapping_key_status(store, self._wrapping_keys)
        problem = status.trouble
        return WrappingKeyFacts(
            status.key_id, problem.message if problem else "", problem.hint if problem else "", status.replaced
        )


def _plugin_facts(installed: InstalledPlugin, given_up_at: Mapping[str, str], store: PluginStore) -> PluginFacts:
    return PluginFacts(
        str(installed.plugin.name),
        installed.version.version if installed.version else installed.plugin.current_version,
        installed.state.value,
        enabled=bool(installed.grant and installed.grant.enabled),
        pinned=installed.plugin.pinned_version,
        given_up=installed.given_up,
        given_up_at=given_up_at.get(installed.plugin.name, ""),
        waiting=installed.waiting,
        files=_files_fingerprint(installed, store) if installed.state is InstalledState.MODIFIED else "",
    )


def _files_fingerprint(installed: InstalledPlugin, store: PluginStore) -> str:
    """Fingerprint modified files, as far as a directory listing shows which change it is."""
    if installed.version is None:
        return ""
    try:
        listing = fingerprint(store.version_root(installed.version.plugin, installed.version.version))
    except OSError:
        return "unreadable"
    return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()


def _webhook_facts(tx: Transaction, hook: webhook.Webhook) -> WebhookFacts:
    dead_count = dead_letters.count(tx, hook.tenant, hook.id)
    last_dead = dead_letters.last_seq(tx, hook.tenant, hook.id) if dead_count else 0
    return WebhookFacts(
        hook.id,
        hook.label,
        hook.enabled,
        hook.disabled_why,
        hook.attempts,
        hook.reason,
        dead_count,
        last_dead=last_dead,
    )


def _host_problem(subject: str, error: PaddockError, rejects_calls: bool) -> HostProblem:
    return HostProblem(subject, error.error_code, error.message, error.hint, rejects_calls)
