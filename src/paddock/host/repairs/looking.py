"""Gathers the facts of a tenant: rows on a thread of the store, what runs as the supervisor has it, and the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from paddock.config.local import PluginEntry, read_entries
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.events import dead_letters, webhook
from paddock.gate.catalogue import Catalogue
from paddock.gate.effects.doubt_count import count_doubts
from paddock.host.condition import Condition
from paddock.host.repairs.facts import DoubtFacts, Facts, KeyFacts, PluginFacts, SealFacts, Trouble, WebhookFacts
from paddock.host.repairs.ignored import Ignored, ignored
from paddock.host.repairs.machine import Machine
from paddock.host.repairs.missing_secrets import missing_of_tenant
from paddock.host.secret_keeping import seal_state
from paddock.manifest.model import Manifest
from paddock.plugins.enabling import unfilled
from paddock.plugins.listing import Listed, State, list_plugins
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.tree import fingerprint
from paddock.plugins.unset_references import unset_references
from paddock.principals.api_keys import keys
from paddock.secrets.keys import Keys
from paddock.secrets.rows import secrets
from paddock.store.transaction import Transaction

Runtime = Callable[[str, Tenant], dict[str, Any] | None]
"""How a tenant's plugin is doing, as data; see `host.runtime_value`."""


class Seen(NamedTuple):
    """The facts of one moment, and what people said to leave alone."""

    facts: Facts
    ignored: dict[str, Ignored]


class Looking:
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
        runtime: Runtime,
        judge: Callable[[str, str, str], None],
        catalogue: Callable[[Tenant], Catalogue],
        condition: Condition,
        machine: Machine,
        sealed_with: Keys,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._views = views
        self._runtime = runtime
        self._judge = judge
        self._catalogue = catalogue
        self._condition = condition
        self._machine = machine
        self._sealed_with = sealed_with
        self._environ = environ
        self._clock = clock

    async def look(self, tenant: Tenant, *, anew: bool = False) -> Seen:
        """What is so right now; the machine as it was seen last, or with `anew` as it is.

        Raises:
            PaddockError: the store cannot be read.
        """
        manifests = {str(entry.manifest.name): entry.manifest for entry in self._catalogue(tenant).entries()}
        machine = await self._machine.seen(anew=anew) if tenant == DEFAULT_TENANT else None
        facts, listed, said = await self._views.run(lambda store: self._read(store, manifests), tenant)
        for one in listed.values():
            if one.version is not None:
                self._judge(one.plugin.name, one.version.digest, one.state)
        plugins = tuple(
            self._with_runtime(one, listed[one.name], tenant)
            for one in facts.plugins
            if tenant == DEFAULT_TENANT or listed[one.name].grant is not None
        )
        troubles = (*facts.troubles, *self._troubles(tenant))
        return Seen(replace(facts, plugins=plugins, troubles=troubles, machine=machine), said)

    def _with_runtime(self, one: PluginFacts, listed: Listed, tenant: Tenant) -> PluginFacts:
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

    def _troubles(self, tenant: Tenant) -> tuple[Trouble, ...]:
        """Of the host where it is the default tenant, which operates it; of others only what keeps their calls out."""
        ledger, ours = self._condition.ledger, tenant == DEFAULT_TENANT
        found = [
            ("ledger", ledger.failing, True),
            *(("ledger", error, True) for name, error in sorted(ledger.broken.items()) if ours or name == tenant),
            ("checkpoints", ledger.unsigned if ours else None, False),
            ("rules", self._condition.rules.unusable if ours else None, False),
        ]
        return tuple(_trouble(about, error, refuses) for about, error, refuses in found if error is not None)

    # --- on the store's thread ----------------------------------------------------------------------------------------

    def _read(
        self, store: PluginStore, manifests: Mapping[str, Manifest]
    ) -> tuple[Facts, dict[str, Listed], dict[str, Ignored]]:
        listed, tenant, now = list_plugins(store), store.tenant, self._clock.now()
        troubles: tuple[Trouble, ...] = ()
        entries: Mapping[str, PluginEntry] = {}
        try:
            entries = read_entries(store.values_file)
        except PaddockError as error:
            troubles = (_trouble("configuration", error, refuses=False),)

        def unit(tx: Transaction) -> tuple[Facts, dict[str, Ignored]]:
            working = [one for one in keys(tx, tenant) if one.state(now) in ("live", "expired")]
            doubts = count_doubts(tx, tenant)
            facts = Facts(
                now,
                tenant,
                webhooks=tuple(_webhook(tx, one) for one in webhook.webhooks(tx, tenant)),
                keys=tuple(
                    KeyFacts(one.id, one.label, one.owner, one.expires_at, one.last_used_at)
                    for one in working
                    if one.expires_at is not None
                ),
                doubts=DoubtFacts(*doubts),
                troubles=troubles,
            )
            return facts, ignored(tx, tenant)

        facts, said = store.database.read(unit)
        have = {one.name for one in store.database.read(lambda tx: secrets(tx, tenant, ""))}
        plugins: list[PluginFacts] = []
        for one in listed:
            plugin, manifest = _plugin(one, store), manifests.get(one.plugin.name)
            if manifest is not None:
                entry = entries.get(one.plugin.name)
                unset = unset_references(store, entry, self._environ) if entry is not None else {}
                plugin = replace(
                    plugin,
                    unfilled=tuple(unfilled(manifest, entry)),
                    unset={field: tuple(problem.message for problem in found) for field, found in unset.items()},
                    secrets=missing_of_tenant(manifest, have),
                )
            plugins.append(plugin)
        seal = self._seal(store) if tenant == DEFAULT_TENANT else SealFacts()
        return replace(facts, plugins=tuple(plugins), seal=seal), {str(one.plugin.name): one for one in listed}, said

    def _seal(self, store: PluginStore) -> SealFacts:
        found = seal_state(store, self._sealed_with)
        wrong = found.trouble
        return SealFacts(found.key_id, wrong.message if wrong else "", wrong.hint if wrong else "", found.replaced)


def _plugin(one: Listed, store: PluginStore) -> PluginFacts:
    return PluginFacts(
        str(one.plugin.name),
        one.version.version if one.version else one.plugin.current_version,
        one.state.value,
        enabled=bool(one.grant and one.grant.enabled),
        pinned=one.plugin.pinned_version,
        given_up=one.given_up,
        waiting=one.waiting,
        files=_files(one, store) if one.state is State.MODIFIED else "",
    )


def _files(one: Listed, store: PluginStore) -> str:
    """Of changed files: which change it is, as far as a listing of them tells."""
    if one.version is None:
        return ""
    try:
        seen = fingerprint(store.root_of(one.version.plugin, one.version.version))
    except OSError:
        return "unreadable"
    return hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()


def _webhook(tx: Transaction, hook: webhook.Webhook) -> WebhookFacts:
    dead = dead_letters.count(tx, hook.tenant, hook.id)
    last = dead_letters.last(tx, hook.tenant, hook.id) if dead else 0
    return WebhookFacts(
        hook.id, hook.label, hook.enabled, hook.disabled_why, hook.attempts, hook.reason, dead, last_dead=last
    )


def _trouble(about: str, error: PaddockError, refuses: bool) -> Trouble:
    return Trouble(about, error.error_code, error.message, error.hint, refuses)
