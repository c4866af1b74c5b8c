"""Opens a host: builds every part, injects its dependencies, and closes them all in reverse order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from paddock.approvals.deadlines import NearestDeadlines
from paddock.approvals.request import PendingLimits
from paddock.cage.network.egress_proxy import open_cage_network
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.warden.client import open_warden
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.authorization import PolicyCheck
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.tasks import scoped_tasks
from paddock.gate.admission.call_limits import CallLimits
from paddock.gate.admission.quotas import open_quotas
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import AgentAllowlistAuthorizer, ConsentCache, PolicyAuthorizer, ProposalChecker
from paddock.gate.calls.call_details import open_call_details
from paddock.gate.calls.expiry import ApprovalExpiry
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens, PendingCallResumer
from paddock.gate.calls.tasks import CallTasks
from paddock.gate.calls.waiting_calls import WaitingCalls
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.gate.gate import Gate
from paddock.gate.output import OutputValidator
from paddock.gate.permitted_targets import may_call_unattended
from paddock.gate.recovery import RecoveryWaiter
from paddock.host.calls.approvals import ApprovalService
from paddock.host.calls.call_history import CallHistory
from paddock.host.calls.call_record import CallRecords
from paddock.host.calls.caller_view import CallableAccess, PermittedPlugins
from paddock.host.calls.last_day import LastDayReader
from paddock.host.calls.osqr_activation import OsqrActivation
from paddock.host.calls.shu_actions import ShuActions
from paddock.host.calls.unknown_outcomes import UnknownOutcomes
from paddock.host.explain.explain_service import ExplainService
from paddock.host.host import Host
from paddock.host.learn.learn_service import LearnService
from paddock.host.learn.trial_job import TrialJobs
from paddock.host.learn.trial_pass import TrialRunner
from paddock.host.ledger.erasure import ErasureService
from paddock.host.ledger.reader import LedgerReader
from paddock.host.ledger.verification import VerificationService
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.observability.call_observers import log_call, open_span_exporter
from paddock.host.observability.health import HostHealth
from paddock.host.observability.metrics import Metrics
from paddock.host.plugins.activity import ActivityReader
from paddock.host.plugins.aliases import AliasService
from paddock.host.plugins.capability_services import open_capability_services
from paddock.host.plugins.config_service import ConfigService
from paddock.host.plugins.discovery import DefinitionService
from paddock.host.plugins.embedded_plugin import EmbeddedPlugins
from paddock.host.plugins.features import PluginFeatures
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.inventory import PluginInventory
from paddock.host.plugins.knob_service import KnobService
from paddock.host.plugins.launch.filesystem_probe import FilesystemProbe
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.host.plugins.lifecycle import PluginLifecycle
from paddock.host.plugins.logs.log_reader import PluginLogReader
from paddock.host.plugins.logs.plugin_logs import DenialLogger, open_plugin_logs
from paddock.host.plugins.processes import PluginProcesses
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.plugins.supervisor_events import SupervisorEvents
from paddock.host.plugins.uninstall import UninstallCleanup, UninstallService
from paddock.host.plugins.versions import VersionService
from paddock.host.policy.active_policy import open_active_policy
from paddock.host.policy.policy_service import PolicyService
from paddock.host.policy.rule_editor import RuleEditor
from paddock.host.repairs.host_probe import HostProbe
from paddock.host.secrets.keys import load_secret_keys
from paddock.host.secrets.secret_service import SecretService
from paddock.host.secrets.usage import SecretUsageService
from paddock.host.secrets.user_requirements import UserRequirements
from paddock.host.services import (
    CallServices,
    LedgerServices,
    ObservabilityServices,
    PluginServices,
    PolicyServices,
    SecretServices,
)
from paddock.host.wiring.anchor_schedule import open_anchor_schedule
from paddock.host.wiring.background_jobs import build_recovery, open_background_jobs
from paddock.host.wiring.gate import build_approvals, build_gate
from paddock.host.wiring.services import build_identity_services, build_inbox, build_repairs
from paddock.host.wiring.webhook_delivery import open_webhook_delivery
from paddock.ledger.write.lifespan import open_ledger
from paddock.plugins.store.store import open_plugin_store, staging_root_in, trees_directory
from paddock.plugins.store.thread import open_store_thread
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.policy.rule_folder import RuleFolder
from paddock.queue.node import open_node
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.instance import SupervisorDeps
from paddock.runtime.launcher import PluginLauncher
from paddock.runtime.limits.start_throttle import StartThrottle
from paddock.runtime.protocols.select import select_adapter
from paddock.runtime.supervisor import open_supervisor
from paddock.secrets.wrapping_keys import PassphrasePrompts
from paddock.store.database import open_database, open_direct
from paddock.webhooks.live_events import LiveEvents
from paddock.webhooks.sender import ReceiverDestinations, WebhookSender

FIRST_EXPIRY_TIMEOUT_S = 0.25  # bounds the expiry of approval requests at the start of a daemon


class Config(Struct, frozen=True):
    """How to open a host.

    `home` overrides `$PADDOCK_HOME`. With `start="enabled"` the enabled plugins start at once, with `"nothing"` each
    starts at its first call. A `daemon` owns its embedded store exclusively; a `command` works beside it. `passphrase`
    asks for that of the keys when one of them is needed and no setting gives it. `flags` are settings of the command
    line, which override all others.
    """

    home: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    role: Literal["daemon", "command"] = "daemon"
    start: Literal["enabled", "nothing"] = "enabled"
    cwd: Path | None = None
    passphrase: PassphrasePrompts | None = None
    flags: Mapping[str, object] = field(default_factory=dict[str, object])


@asynccontextmanager
async def open_host(config: Config | None = None) -> AsyncGenerator[Host, None]:
    """Open a host for as long as the block runs; afterwards no plugin process is left.

    A daemon recovers the state of its predecessor, each step complete before the next: take the lock and check the
    store (`open_database`); check that the ledger continues from its last checkpoints (`open_ledger`); no plugin
    process outlives its host; claim a new epoch in the same transaction that marks effects in flight as in doubt
    (`Node.current_run`); expire overdue approval requests; make approved calls. Then it accepts calls. Each step
    looks for work left to do and is atomic: after a daemon is killed at any point, the next ends in the same state.

    Raises:
        Invalid: the settings have mistakes; carries all of them.
        StoreUnavailable: another daemon has the store, or it cannot be opened.
    """
    config = config or Config()
    environ = dict(config.environ) | ({"PADDOCK_HOME": str(config.home)} if config.home else {})
    directories = find_directories(environ, Path.home())
    create_directories(directories)
    loaded_settings = load_settings(directories, environ, cwd=config.cwd, flags=config.flags)
    settings = loaded_settings.settings
    clock, random = SystemClock(), SystemRandom()
    keys = load_secret_keys(directories, settings, environ, config.passphrase)
    open_store = partial(open_plugin_store, directories, settings, clock=clock, only_connection=False)
    address = settings.store.url or directories.database_file
    # Without the trees every start is cold: a command that makes one call would be gone before a zygote is ready.
    one_call = config.role == "command" and config.start == "nothing"
    plugin_trees = None if one_call else trees_directory(directories.data)

    async def may_call(context: CallContext, plugin: str, callable_name: str) -> bool:
        # The gate exists before anybody can read an artifact.
        catalogue = gate.catalogue(context.tenant)
        return await may_call_unattended(context, catalogue, gate.authorizer, plugin, callable_name)

    async with (
        open_plugin_logs(directories.state / "logs", clock) as logs,
        open_database(address, role=config.role) as database,
        open_ledger(database, clock, random, state=directories.state, long_running=config.role == "daemon") as ledger,
        open_node(database, clock, random, state=directories.state, daemon=config.role == "daemon") as node,
        open_store_thread(open_store) as store,
        open_store_thread(open_store) as views,
        open_cage_network(lambda tenant: DenialLogger(ledger.publisher(tenant), logs, tenant)) as network,
        open_warden(network=network, trees=plugin_trees) as warden,
        # With broken rules a command makes no call, but it still reads, and stops plugins.
        open_active_policy(
            directories, settings.policy, database, clock, random, required=not one_call
        ) as active_policy,
        open_capability_services(
            directories.data / "storage",
            database,
            logs,
            PolicyCheck(active_policy),
            publish_for=lambda tenant: DenialLogger(ledger.publisher(tenant), logs, tenant),
            clock=clock,
            random=random,
            keys=keys,
            may_call=may_call,
            artifacts=ArtifactLimits(artifact_bytes=settings.artifacts.max_size_mb << 20),
        ) as services,
        open_span_exporter(settings.telemetry.otlp_endpoint) as spans,
        scoped_tasks() as tasks,
    ):
        deadlines = NearestDeadlines()
        pending_limits = PendingLimits(settings.limits.waiting_per_principal)
        approvals = build_approvals(database, clock, random, pending_limits, deadlines)

        # The reconciler needs the supervisor, which reports to these; no plugin runs before both exist.
        def disable_failed(key: InstanceKey, reason: str) -> None:
            reconciler.disable_failed(key, reason)

        async def record_discovered(deployment: Deployment, listed: tuple[Definition, ...]) -> None:
            await definitions.record_discovered(deployment, listed)

        supervisor_events = SupervisorEvents(
            logs,
            on_ended=lambda key: tasks.start_soon(
                services.storage.rollback_of_instance, key.tenant, key.plugin, key.digest
            ),
            on_given_up=disable_failed,
            on_definitions=record_discovered,
        )
        preparer = LaunchPreparer(store, FilesystemProbe(DiskFilesystem()), directories, settings, environ, keys, logs)
        mcp_timeout_s = settings.plugins.mcp_timeout_ms / 1000
        deps = SupervisorDeps(
            launch=PluginLauncher(warden.launch, clock, network, connect_timeout_s=mcp_timeout_s).launch,
            adapter_for=partial(select_adapter, answer_request=services.dispatcher.answer, mcp_timeout_s=mcp_timeout_s),
            prepare=preparer,
            publish_for=ledger.publisher,
            observer=supervisor_events,
            clock=clock,
            random=random,
            start_throttle=StartThrottle(),
            long_lived=config.role == "daemon",
            is_node_lost=lambda: node.lease_at_risk,
        )
        catalogues = Catalogues()
        settle_time = timedelta(seconds=settings.effects.settle_s)
        plugin_jobs_woken = asyncio.Event()

        def build_recovery_waiter(gate: Gate) -> RecoveryWaiter:
            recover = None  # a daemon's worker recovers effects
            if config.role == "command":
                recover = build_recovery(gate, database, clock, random, services.storage.end_call, settle_time).recover
            return RecoveryWaiter(database, clock, node, recover)

        limits = settings.limits
        daily_limits = CallLimits(
            limits.daily_calls_per_tenant, limits.daily_calls_per_principal, limits.daily_calls_per_plugin
        )
        async with (
            open_call_details(database, limits.kept_inputs) as call_details,
            open_quotas(daily_limits, database, clock) as quotas,
            open_supervisor(deps, call_timeout=limits.call_timeout_s) as supervisor,
        ):
            gate = build_gate(
                supervisor,
                ledger=ledger,
                database=database,
                authorizer=AgentAllowlistAuthorizer(
                    PolicyAuthorizer(active_policy, ConsentCache(database, clock)),
                    active_policy,
                    catalogues.of,
                ),
                approvals=approvals,
                rate_limiter=RateLimiter(
                    CallLimits(limits.calls_per_tenant, limits.calls_per_principal, limits.calls_per_plugin),
                    quotas,
                    clock.monotonic,
                ),
                secrets=services.secrets,
                clock=clock,
                random=random,
                node=node,
                catalogues=catalogues,
                output_validator=OutputValidator(
                    services.artifacts.access, ProposalChecker(active_policy, catalogues.of)
                ),
                on_effect_succeeded=services.discard_effect_note,
                wake_worker=plugin_jobs_woken.set if config.role == "daemon" else None,
                recovery_waiter_for=build_recovery_waiter,
                max_progress_s=limits.in_progress_s,
            )
            call_tasks = CallTasks()
            tasks.start_soon(call_tasks.run_until_cancelled)
            calls = CallRegistry(gate, call_tasks, clock, random)
            waiting = WaitingCalls(gate, calls, approvals, database, clock)
            resumer = PendingCallResumer(gate, calls, waiting, approvals)
            eager = config.start == "enabled"
            reconciler = Reconciler(store, supervisor, catalogues, preparer, logs, tasks, eager=eager)
            uninstall_cleanup = UninstallCleanup(store, reconciler, services, logs, call_details, tasks)
            definitions = DefinitionService(store, views, logs, reconciler, resumer.void_pending)
            metrics = Metrics(supervisor.statuses, calls, ledger, database)
            gate.observe(metrics.call_ended, log_call, call_details.call_ended, *([spans.call_ended] if spans else []))
            receivers = ReceiverDestinations(settings.events.private_receivers)
            sender, source = WebhookSender(receivers, clock), settings.events.source
            lifecycle = PluginLifecycle(store, supervisor, reconciler, uninstall_cleanup, environ)
            approval_tokens = ApprovalTokens(approvals, resumer, calls, waiting)
            identity = build_identity_services(database, views, services.secrets, settings.oidc, tasks, clock, random)
            approval_service = ApprovalService(approvals, resumer, identity.names)
            processes = PluginProcesses(views, supervisor, reconciler, supervisor_events)
            trial_runner = TrialRunner(warden, network, clock, gate.authorizer, mcp_timeout_s)
            learning = LearnService(store, preparer, trial_runner, ledger.publisher, definitions.record_tried)
            installer = InstallService(
                open_store,
                staging_root_in(directories.data),
                lifecycle.apply_version_change,
                learning.try_server,
                definitions.record_tried,
                clock,
                random,
                keys=keys,
                finish_removals=lifecycle.reconcile if config.role == "command" else None,
            )
            plugins = PluginServices(
                inventory=PluginInventory(views, processes),
                lifecycle=lifecycle,
                processes=processes,
                logs=PluginLogReader(views, logs),
                installer=installer,
                learning=learning,
                trials=TrialJobs(learning, installer, definitions, tasks),
                uninstaller=UninstallService(store, lifecycle.reconcile),
                versions=VersionService(store, views, open_store, lifecycle.apply_version_change),
                aliases=AliasService(store, lifecycle.reconcile),
                config=ConfigService(store, views, reconciler, keys, environ),
                knobs=KnobService(store, views, supervisor, reconciler, preparer),
                definitions=definitions,
                features=PluginFeatures(views, gate, calls),
                activity=ActivityReader(database, ledger, clock),
                artifacts=services.artifacts,
                embedded=EmbeddedPlugins(store, views, reconciler, approval_service.resume_approved_calls),
            )
            ledger_reader = LedgerReader(database, ledger, directories.state)
            explanations = ExplainService(views, active_policy, ledger, gate.catalogue, clock)
            call_services = CallServices(
                registry=calls,
                waiting=waiting,
                actions=ShuActions(gate, calls, approval_tokens),
                activation=OsqrActivation(gate, database, views),
                callable_access=CallableAccess(gate, calls, approval_tokens, active_policy),
                permitted_plugins=PermittedPlugins(gate),
                unknown_outcomes=UnknownOutcomes(database, views, gate.starter.effects.in_doubt, node, clock, random),
                records=CallRecords(
                    calls,
                    waiting,
                    explanations,
                    ledger_reader,
                    call_details,
                    plugins.logs,
                    database,
                    identity.names,
                    gate.catalogue,
                    clock,
                ),
                history=CallHistory(calls, ledger_reader, database, identity.names, clock),
                last_day=LastDayReader(ledger_reader, database, clock),
            )
            secret_store = SecretService(views, keys, reconciler.apply_secret_change)
            secrets = SecretServices(
                store=secret_store,
                usage=SecretUsageService(views),
                user_requirements=UserRequirements(gate.catalogue, call_services.permitted_plugins, secret_store),
            )
            live_events = LiveEvents(database, source, ledger.wait_for_write)
            ledger_services = LedgerServices(
                reader=ledger_reader,
                verification=VerificationService(
                    partial(open_direct, address), directories.state, ledger, tasks, clock
                ),
                erasure=ErasureService(database, ledger, call_details, views, clock, random),
                webhooks=WebhookService(views, keys, receivers, sender, source, clock, random),
                live_events=live_events,
            )
            observability = ObservabilityServices(health=HostHealth(ledger, active_policy), metrics=metrics)
            repairs = build_repairs(
                plugins,
                ledger_services.webhooks,
                secret_store,
                observability.health,
                HostProbe(directories.data, warden.mechanisms, tasks, clock),
                gate.catalogue,
                views=views,
                keys=keys,
                environ=environ,
                clock=clock,
            )
            host = Host(
                directories=directories,
                loaded_settings=loaded_settings,
                plugins=plugins,
                calls=call_services,
                approvals=approval_service,
                identity=identity,
                policy=PolicyServices(
                    active=active_policy,
                    rules=PolicyService(views, active_policy, gate.catalogue, directories, settings.policy, clock),
                    editor=RuleEditor(
                        views,
                        database,
                        ledger,
                        active_policy,
                        gate.catalogue,
                        RuleFolder(directories, settings.policy),
                        settings.policy,
                        clock,
                        random,
                    ),
                    explanations=explanations,
                ),
                secrets=secrets,
                ledger=ledger_services,
                repairs=repairs,
                inbox=build_inbox(database, views, repairs, live_events, clock),
                observability=observability,
                gate=gate,
                views=views,
                clock=clock,
                random=random,
            )
            with suppress(StoreUnavailable):  # retried before the first effect, which needs disk space as well
                # Effects that dead runs of this home had started are in doubt from here on.
                if config.role == "daemon":
                    await node.current_run()
                await node.end_dead_runs()
            if config.role == "daemon":
                with suppress(PaddockError, OSError):  # a full disk must not keep a host from starting
                    await lifecycle.clean_up_interrupted()
            await reconciler.reconcile()
            tasks.start_soon(reconciler.run_forever)
            tasks.start_soon(active_policy.run_forever)
            async with AsyncExitStack() as daemon_stack:
                await daemon_stack.enter_async_context(installer.accept_jobs())
                if config.role == "daemon":  # a command must not: the daemon may be using a plugin's stored data
                    tasks.start_soon(uninstall_cleanup.run_forever)
                    expiry = ApprovalExpiry(approvals, resumer, deadlines, clock)
                    await expiry.expire_at_startup(FIRST_EXPIRY_TIMEOUT_S)
                    with suppress(PaddockError):  # retried a moment later
                        await resumer.resume_unused()
                    tasks.start_soon(resumer.check_forever)
                    tasks.start_soon(expiry.run_forever)
                    background_jobs = open_background_jobs(
                        database,
                        node,
                        clock,
                        random,
                        gate=gate,
                        end_call=services.storage.end_call,
                        calls=calls,
                        plugin_jobs_woken=plugin_jobs_woken,
                        retention=timedelta(days=settings.effects.retention_days),
                        settle_time=settle_time,
                    )
                    await daemon_stack.enter_async_context(background_jobs)
                    webhook_delivery = open_webhook_delivery(
                        live_events,
                        sender,
                        settings.events,
                        database=database,
                        ledger=ledger,
                        node=node,
                        keys=keys,
                        clock=clock,
                        random=random,
                    )
                    await daemon_stack.enter_async_context(webhook_delivery)
                    anchors = open_anchor_schedule(settings.ledger, directories.state, environ, clock, random)
                    await daemon_stack.enter_async_context(anchors)
                try:
                    yield host
                finally:
                    await host.drain()
