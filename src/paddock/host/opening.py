"""Opening a host: builds every part, hands each what it needs, and closes them all in reverse."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from paddock.cage.network.serving import open_network
from paddock.cage.plan.machine import DiskMachine
from paddock.cage.warden.launching import open_warden
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.deciding import UseByTheRules
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.events.live import LiveEvents
from paddock.events.sending import Receivers, Sender
from paddock.gate.call_tasks import CallTasks
from paddock.gate.calls import Calls
from paddock.gate.claiming import Claims
from paddock.gate.deciding import ByTheRules
from paddock.gate.finding_out import FindingOut
from paddock.gate.limits import Limits
from paddock.gate.quotas import open_quotas
from paddock.gate.rates import Rates
from paddock.gate.remembered_consents import RememberedConsents
from paddock.gate.resume import Resumption
from paddock.gate.whitelists import OnTheirWhitelists, Proposals
from paddock.host.activation import Activation
from paddock.host.api_keys import ApiKeys
from paddock.host.approving import Approving
from paddock.host.call_log import CallLog
from paddock.host.changes import Changes
from paddock.host.condition import Condition
from paddock.host.configuring import Configuring
from paddock.host.consents import Consents
from paddock.host.console import Console
from paddock.host.credentials import Credentials
from paddock.host.definitions import Definitions
from paddock.host.departures import Departures
from paddock.host.door import open_services
from paddock.host.doubts import Doubts
from paddock.host.explaining import Explaining
from paddock.host.gating import BesideTheGate, approvals_on, gate_to
from paddock.host.host import Host
from paddock.host.installing import Installing
from paddock.host.ledger_reading import LedgerReading
from paddock.host.looking import Looks
from paddock.host.metrics import Metrics
from paddock.host.people import People
from paddock.host.plugin_activity import PluginActivity
from paddock.host.plugin_logs import open_plugin_logs
from paddock.host.policy_reading import PolicyReading
from paddock.host.reconciling import Reconciler
from paddock.host.refusals import LoggedRefusals
from paddock.host.repairs.machine import Machine
from paddock.host.rulebook import open_rulebook
from paddock.host.secret_keys import secret_keys
from paddock.host.sign_ins import SignIns
from paddock.host.spans import open_spans
from paddock.host.starting import Starter
from paddock.host.telling import open_telling
from paddock.host.timed_work import open_timed_work, recovery_of
from paddock.host.turning import Turning
from paddock.host.verifying import Verifying
from paddock.host.watching import PluginNews
from paddock.host.webhooks import Webhooks
from paddock.ledger.opening import open_ledger
from paddock.plugins.opening import open_plugin_store
from paddock.plugins.plugin_store import staging_in, trees_in
from paddock.plugins.runtimes.choosing import wire_for
from paddock.plugins.runtimes.embedded.body import WithEmbedded
from paddock.plugins.runtimes.mcp.remote import WithRemote
from paddock.plugins.store_thread import open_store_thread
from paddock.plugins.supervision.body import CagedBodies
from paddock.plugins.supervision.keeper import Surroundings
from paddock.plugins.supervision.owned_tasks import owned_tasks
from paddock.plugins.supervision.start_gate import StartGate
from paddock.plugins.supervision.supervisor import open_supervisor
from paddock.policy.approvals.room import Room
from paddock.queue.node import open_node
from paddock.store.database import open_database, open_direct

TO_EXPIRE = 1.0  # seconds at most, at the start of a daemon


@dataclass(frozen=True, slots=True)
class Config:
    """How to open a host.

    `home` stands for `$PADDOCK_HOME`. With `start="enabled"` the enabled plugins start at once, with `"nothing"` each
    starts at its first call. A `daemon` is the only one on its embedded store; a `command` works beside it.
    """

    home: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    role: Literal["daemon", "command"] = "daemon"
    start: Literal["enabled", "nothing"] = "enabled"
    cwd: Path | None = None


@asynccontextmanager
async def open_host(config: Config | None = None) -> AsyncGenerator[Host, None]:
    """The host for as long as the block runs; afterwards no plugin is left.

    A daemon puts in order what the one before it left, each step over before the next: the lock, whether the store is
    whole, whether the ledger goes on from its last checkpoints (`open_database`, `open_ledger`); no process of a plugin
    outlives its host; an epoch of its own, in the same step as what was under way is in doubt (`node.here`); requests
    whose time is over end; what was approved is made. Then it takes calls. Killed at any point, the next one begins
    anew and ends in the same state: each step looks for what is left to do, and is written as a whole or not at all.

    Raises:
        Invalid: the settings have mistakes; carries all of them.
        StoreUnavailable: another daemon has the store, or it cannot be opened.
    """
    config = config or Config()
    environ = dict(config.environ) | ({"PADDOCK_HOME": str(config.home)} if config.home else {})
    directories = find_directories(environ, Path.home())
    create_directories(directories)
    loaded = load_settings(directories, environ, cwd=config.cwd)
    settings = loaded.settings
    clock, random = SystemClock(), SystemRandom()
    keys = secret_keys(directories, settings, environ)
    opening = partial(open_plugin_store, directories, settings, clock=clock)
    address = settings.store.url or directories.database_file
    async with (
        open_plugin_logs(directories.state / "logs", clock) as logs,
        open_database(address, role=config.role) as database,
        open_ledger(database, clock, random, state=directories.state, lasting=config.role == "daemon") as events,
        open_node(database, clock, random, state=directories.state, lasting=config.role == "daemon") as node,
        open_store_thread(opening) as store,
        open_store_thread(opening) as views,
        open_network(lambda tenant: LoggedRefusals(events.publisher(tenant), logs, tenant)) as network,
        open_warden(network=network, trees=trees_in(directories.data)) as warden,
        open_rulebook(directories, settings.policy, database, clock, random) as rulebook,
        open_services(
            directories.data / "storage",
            database,
            logs,
            UseByTheRules(rulebook),
            publish_for=lambda tenant: LoggedRefusals(events.publisher(tenant), logs, tenant),
            clock=clock,
            random=random,
            keys=keys,
            artifacts=ArtifactLimits(one=settings.artifacts.max_size_mb << 20),
        ) as services,
        open_spans(settings.telemetry.otlp_endpoint) as spans,
        owned_tasks() as tasks,
    ):
        room = Room(settings.limits.waiting_per_principal, settings.limits.waiting_per_tenant)
        approvals = approvals_on(database, clock, random, room)
        news = PluginNews(logs)
        starter = Starter(store, Looks(DiskMachine()), directories, settings, environ, keys, logs)
        around = Surroundings(
            bodies=WithRemote(WithEmbedded(CagedBodies(warden, clock, network))),
            wire_for=partial(wire_for, door=services.door),
            prepare=starter,
            publish_for=lambda tenant: BesideTheGate(events.publisher(tenant)),
            watcher=news,
            clock=clock,
            random=random,
            starts=StartGate(),
            lasting=config.role == "daemon",
        )
        limits = settings.limits
        a_day = Rates(limits.daily_calls_per_tenant, limits.daily_calls_per_principal, limits.daily_calls_per_plugin)
        async with (
            open_quotas(a_day, database, clock) as quotas,
            open_supervisor(around, call_timeout=limits.call_timeout_s) as supervisor,
        ):
            gate = gate_to(
                supervisor,
                ledger=events,
                database=database,
                decides=OnTheirWhitelists(
                    ByTheRules(rulebook, RememberedConsents(database, clock)),
                    rulebook,
                    lambda tenant: gate.catalogue(tenant),
                ),
                approvals=approvals,
                limits=Limits(
                    Rates(limits.calls_per_tenant, limits.calls_per_principal, limits.calls_per_plugin),
                    quotas,
                    clock.monotonic,
                ),
                secrets=services.secrets,
                clock=clock,
                random=random,
                node=node,
                in_progress_s=limits.in_progress_s,
            )
            gate.promises.artifacts = services.artifacts
            gate.start.effects.when_succeeded = services.happened
            gate.promises.proposals = Proposals(rulebook, gate.catalogue)
            running = CallTasks()
            tasks.start_soon(running.keep)
            calls = Calls(gate, running, clock, random)
            gate.start.effects.going_down = lambda: calls.going_down
            resumption = Resumption(gate, calls, approvals, database, clock)
            eager = config.start == "enabled"
            reconciler = Reconciler(store, supervisor, gate, starter, logs, tasks, eager=eager)
            departures = Departures(store, reconciler, services, logs, tasks)
            definitions = Definitions(store, views, logs, reconciler)
            news.on_given_up = reconciler.give_up
            news.on_met = definitions.met
            news.on_ended = lambda key: tasks.start_soon(services.storage.ended, key.tenant, key.plugin, key.digest)
            metrics = Metrics(supervisor.statuses, calls, events, database)
            gate.observers += [metrics, CallLog(), *([spans] if spans else [])]
            receivers = Receivers(settings.events.private_receivers)
            sender, source = Sender(receivers, clock), settings.events.source
            live = LiveEvents(database, source, events.landed)
            credentials = Credentials(database, clock, tasks)
            console = Console(database, credentials, clock, random)
            changes = Changes(database, credentials, clock, random)
            installing = Installing(opening, staging_in(directories.data), clock, random)
            host = Host(
                directories=directories,
                loaded=loaded,
                store=store,
                views=views,
                supervisor=supervisor,
                gate=gate,
                calls=calls,
                claims=Claims(approvals, resumption, calls, gate),
                approving=Approving(approvals, resumption),
                credentials=credentials,
                console=console,
                people=People(changes),
                api_keys=ApiKeys(changes),
                consents=Consents(changes),
                sign_ins=SignIns(database, services.secrets, credentials, settings.oidc, clock, random),
                explaining=Explaining(views, rulebook, events, gate.catalogue, clock),
                ledger=LedgerReading(database, events),
                verifying=Verifying(partial(open_direct, address), directories.state, events, tasks, clock),
                activation=Activation(gate, database, views),
                installing=installing,
                rules=rulebook,
                policy=PolicyReading(views, rulebook, gate.catalogue, directories, settings.policy, clock),
                condition=Condition(events, rulebook),
                metrics=metrics,
                reconciler=reconciler,
                departures=departures,
                turning=Turning(store, supervisor, reconciler, starter),
                activity=PluginActivity(database, events, clock),
                configuring=Configuring(store, views, reconciler, keys, environ),
                artifacts=services.artifacts,
                definitions=definitions,
                live=live,
                webhooks=Webhooks(views, keys, receivers, sender, source, clock, random),
                doubts=Doubts(database, views, gate.start.effects, clock, random),
                keys=keys,
                machine=Machine(directories.data, warden.mechanisms, tasks, clock),
                environ=environ,
                logs=logs,
                news=news,
                clock=clock,
                random=random,
            )
            with suppress(StoreUnavailable):  # else before the first effect, which needs room on the disk as well
                # What runs of this home had started that are over is in doubt from here on.
                if config.role == "daemon":
                    await node.here()
                await node.end_gone()
            await reconciler.reconcile()
            tasks.start_soon(reconciler.look_again)
            tasks.start_soon(rulebook.look_again)
            settle = timedelta(seconds=settings.effects.settle_s)
            recover = None  # a daemon finds out by itself what became of effects
            if config.role == "command":
                recover = recovery_of(gate, database, clock, random, services.storage, settle).recover
            gate.start.effects.found_out = FindingOut(database, clock, node, recover).known
            async with AsyncExitStack() as by_itself:
                await by_itself.enter_async_context(installing.running())
                if config.role == "daemon":  # beside one, what a plugin keeps may be in use there
                    tasks.start_soon(departures.look_again)
                    await resumption.expire_first(TO_EXPIRE)
                    await resumption.come_back()
                    tasks.start_soon(resumption.expire_forever)
                    timed = open_timed_work(
                        database,
                        node,
                        clock,
                        random,
                        gate=gate,
                        approvals=approvals,
                        resumption=resumption,
                        notes=services.storage,
                        calls=calls,
                        keep=timedelta(days=settings.effects.retention_days),
                        settle=settle,
                    )
                    await by_itself.enter_async_context(timed)
                    telling = open_telling(
                        live,
                        sender,
                        settings.events,
                        database=database,
                        ledger=events,
                        node=node,
                        keys=keys,
                        clock=clock,
                        random=random,
                    )
                    await by_itself.enter_async_context(telling)
                try:
                    yield host
                finally:
                    await host.drain()
