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

from paddock.approvals.request import PendingLimits
from paddock.cage.network.egress_proxy import open_cage_network
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.warden.client import open_warden
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.authorization import PolicyCheck
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.core.tasks import scoped_tasks
from paddock.gate.admission.quotas import CallLimits, open_quotas
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import AgentAllowlistAuthorizer, ConsentCache, PolicyAuthorizer, ProposalChecker
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens, PendingCallResumer
from paddock.gate.calls.tasks import CallTasks
from paddock.gate.recovery import RecoveryWaiter
from paddock.host.calling.activation import Activation
from paddock.host.calling.approvals import ApprovalService
from paddock.host.calling.unknown_outcomes import UnknownOutcomes
from paddock.host.explain.explain_service import ExplainService
from paddock.host.host import Host
from paddock.host.identity.api_keys import ApiKeyService
from paddock.host.identity.console_sessions import ConsoleSessions
from paddock.host.identity.credentials import CredentialVerifier
from paddock.host.identity.oidc import OidcIdentities
from paddock.host.identity.people import ConsentService, PeopleService
from paddock.host.identity.principal_transactions import PrincipalTransactions
from paddock.host.ledger.reader import LedgerReader
from paddock.host.ledger.verification import VerificationService
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.observability.call_observers import CallLogger, open_span_exporter
from paddock.host.observability.health import HostHealth
from paddock.host.observability.metrics import Metrics
from paddock.host.plugins.activity import ActivityReader
from paddock.host.plugins.capability_services import open_capability_services
from paddock.host.plugins.config_service import ConfigService
from paddock.host.plugins.discovery import DefinitionService
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.knob_service import KnobService
from paddock.host.plugins.launch.filesystem_probe import FilesystemProbe
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.host.plugins.logs.plugin_logs import DenialLogger, open_plugin_logs
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.plugins.supervisor_events import SupervisorEvents
from paddock.host.plugins.uninstall import UninstallCleanup
from paddock.host.policy.active_policy import open_active_policy
from paddock.host.policy.policy_service import PolicyService
from paddock.host.repairs.host_probe import HostProbe
from paddock.host.secrets.keys import load_secret_keys
from paddock.host.wiring.background_jobs import build_recovery, open_background_jobs
from paddock.host.wiring.gate import DropMethodEvents, build_approvals, build_gate
from paddock.host.wiring.webhook_delivery import open_webhook_delivery
from paddock.ledger.write.lifespan import open_ledger
from paddock.plugins.store.store import open_plugin_store, staging_root_in, trees_directory
from paddock.plugins.store.thread import open_store_thread
from paddock.queue.node import open_node
from paddock.runtime.endpoint import CagedEndpointLauncher
from paddock.runtime.instance import SupervisorDeps
from paddock.runtime.protocols.embedded.endpoint import EmbeddedEndpointLauncher
from paddock.runtime.protocols.mcp.remote_endpoint import RemoteEndpointLauncher
from paddock.runtime.protocols.select import select_adapter
from paddock.runtime.supervisor import open_supervisor
from paddock.runtime.throttle import StartThrottle
from paddock.store.database import open_database, open_direct
from paddock.webhooks.live_events import LiveEvents
from paddock.webhooks.sender import ReceiverDestinations, WebhookSender

FIRST_EXPIRY_TIMEOUT_S = 1.0  # seconds at most, at the start of a daemon


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
    keys = load_secret_keys(directories, settings, environ)
    opening = partial(open_plugin_store, directories, settings, clock=clock)
    address = settings.store.url or directories.database_file
    async with (
        open_plugin_logs(directories.state / "logs", clock) as logs,
        open_database(address, role=config.role) as database,
        open_ledger(database, clock, random, state=directories.state, long_running=config.role == "daemon") as events,
        open_node(database, clock, random, state=directories.state, daemon=config.role == "daemon") as node,
        open_store_thread(opening) as store,
        open_store_thread(opening) as views,
        open_cage_network(lambda tenant: DenialLogger(events.publisher(tenant), logs, tenant)) as network,
        open_warden(network=network, trees=trees_directory(directories.data)) as warden,
        open_active_policy(directories, settings.policy, database, clock, random) as rulebook,
        open_capability_services(
            directories.data / "storage",
            database,
            logs,
            PolicyCheck(rulebook),
            publish_for=lambda tenant: DenialLogger(events.publisher(tenant), logs, tenant),
            clock=clock,
            random=random,
            keys=keys,
            artifacts=ArtifactLimits(artifact_bytes=settings.artifacts.max_size_mb << 20),
        ) as services,
        open_span_exporter(settings.telemetry.otlp_endpoint) as spans,
        scoped_tasks() as tasks,
    ):
        room = PendingLimits(settings.limits.waiting_per_principal, settings.limits.waiting_per_tenant)
        approvals = build_approvals(database, clock, random, room)
        news = SupervisorEvents(logs)
        starter = LaunchPreparer(store, FilesystemProbe(DiskFilesystem()), directories, settings, environ, keys, logs)
        around = SupervisorDeps(
            launcher=RemoteEndpointLauncher(EmbeddedEndpointLauncher(CagedEndpointLauncher(warden, clock, network))),
            adapter_for=partial(select_adapter, capabilities=services.dispatcher),
            prepare=starter,
            publish_for=lambda tenant: DropMethodEvents(events.publisher(tenant)),
            observer=news,
            clock=clock,
            random=random,
            start_throttle=StartThrottle(),
            long_lived=config.role == "daemon",
        )
        limits = settings.limits
        a_day = CallLimits(
            limits.daily_calls_per_tenant, limits.daily_calls_per_principal, limits.daily_calls_per_plugin
        )
        async with (
            open_quotas(a_day, database, clock) as quotas,
            open_supervisor(around, call_timeout=limits.call_timeout_s) as supervisor,
        ):
            gate = build_gate(
                supervisor,
                ledger=events,
                database=database,
                decides=AgentAllowlistAuthorizer(
                    PolicyAuthorizer(rulebook, ConsentCache(database, clock)),
                    rulebook,
                    lambda tenant: gate.catalogue(tenant),
                ),
                approvals=approvals,
                limits=RateLimiter(
                    CallLimits(limits.calls_per_tenant, limits.calls_per_principal, limits.calls_per_plugin),
                    quotas,
                    clock.monotonic,
                ),
                secrets=services.secrets,
                clock=clock,
                random=random,
                node=node,
                in_progress_s=limits.in_progress_s,
            )
            gate.output_validator.artifacts = services.artifacts
            gate.starter.effects.on_succeeded = services.discard_effect_note
            gate.output_validator.proposals = ProposalChecker(rulebook, gate.catalogue)
            running = CallTasks()
            tasks.start_soon(running.run_until_cancelled)
            calls = CallRegistry(gate, running, clock, random)
            gate.starter.effects.is_shutting_down = lambda: calls.is_shutting_down
            resumption = PendingCallResumer(gate, calls, approvals, database, clock)
            eager = config.start == "enabled"
            reconciler = Reconciler(store, supervisor, gate, starter, logs, tasks, eager=eager)
            departures = UninstallCleanup(store, reconciler, services, logs, tasks)
            definitions = DefinitionService(store, views, logs, reconciler)
            news.on_given_up = reconciler.disable_failed
            news.on_definitions = definitions.record_discovered
            news.on_ended = lambda key: tasks.start_soon(
                services.storage.rollback_of_instance, key.tenant, key.plugin, key.digest
            )
            metrics = Metrics(supervisor.statuses, calls, events, database)
            gate.observers += [metrics, CallLogger(), *([spans] if spans else [])]
            receivers = ReceiverDestinations(settings.events.private_receivers)
            sender, source = WebhookSender(receivers, clock), settings.events.source
            live = LiveEvents(database, source, events.wait_for_write)
            credentials = CredentialVerifier(database, clock, tasks)
            console = ConsoleSessions(database, credentials, clock, random)
            changes = PrincipalTransactions(database, credentials, clock, random)
            installing = InstallService(opening, staging_root_in(directories.data), clock, random)
            host = Host(
                directories=directories,
                loaded=loaded,
                store=store,
                views=views,
                supervisor=supervisor,
                gate=gate,
                calls=calls,
                claims=ApprovalTokens(approvals, resumption, calls, gate),
                approving=ApprovalService(approvals, resumption),
                credentials=credentials,
                console=console,
                people=PeopleService(changes),
                api_keys=ApiKeyService(changes),
                consents=ConsentService(changes),
                sign_ins=OidcIdentities(database, services.secrets, credentials, settings.oidc, clock, random),
                explaining=ExplainService(views, rulebook, events, gate.catalogue, clock),
                ledger=LedgerReader(database, events),
                verifying=VerificationService(partial(open_direct, address), directories.state, events, tasks, clock),
                activation=Activation(gate, database, views),
                installing=installing,
                rules=rulebook,
                policy=PolicyService(views, rulebook, gate.catalogue, directories, settings.policy, clock),
                condition=HostHealth(events, rulebook),
                metrics=metrics,
                reconciler=reconciler,
                departures=departures,
                turning=KnobService(store, supervisor, reconciler, starter),
                activity=ActivityReader(database, events, clock),
                configuring=ConfigService(store, views, reconciler, keys, environ),
                artifacts=services.artifacts,
                definitions=definitions,
                live=live,
                webhooks=WebhookService(views, keys, receivers, sender, source, clock, random),
                doubts=UnknownOutcomes(database, views, gate.starter.effects, clock, random),
                keys=keys,
                machine=HostProbe(directories.data, warden.mechanisms, tasks, clock),
                environ=environ,
                logs=logs,
                news=news,
                clock=clock,
                random=random,
            )
            with suppress(StoreUnavailable):  # else before the first effect, which needs room on the disk as well
                # What runs of this home had started that are over is in doubt from here on.
                if config.role == "daemon":
                    await node.current_run()
                await node.end_dead_runs()
            await reconciler.reconcile()
            tasks.start_soon(reconciler.run_forever)
            tasks.start_soon(rulebook.run_forever)
            settle = timedelta(seconds=settings.effects.settle_s)
            recover = None  # a daemon finds out by itself what became of effects
            if config.role == "command":
                recover = build_recovery(gate, database, clock, random, services.storage, settle).recover
            gate.starter.effects.wait_until_resolved = RecoveryWaiter(
                database, clock, node, recover
            ).wait_until_resolved
            async with AsyncExitStack() as by_itself:
                await by_itself.enter_async_context(installing.accept_jobs())
                if config.role == "daemon":  # beside one, what a plugin keeps may be in use there
                    tasks.start_soon(departures.run_forever)
                    await resumption.expire_at_startup(FIRST_EXPIRY_TIMEOUT_S)
                    await resumption.restore_open()
                    tasks.start_soon(resumption.expire_forever)
                    timed = open_background_jobs(
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
                    telling = open_webhook_delivery(
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
