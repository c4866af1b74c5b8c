"""Opens a dev host: the parts of a host that one plugin under development needs, in a home of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from paddock.cage.network.egress_proxy import open_cage_network
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.warden.client import open_warden
from paddock.capabilities.authorization import shipped_policy_check
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.secret import Secret
from paddock.core.tasks import scoped_tasks
from paddock.gate.admission.quotas import NO_LIMITS, DailyQuotas
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import AllowAll
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.host.dev.author import store_given_secrets
from paddock.host.dev.dev_host import DevHost, DevHostParts
from paddock.host.dev.snapshot import SnapshotLaunchPreparer
from paddock.host.dev.supervisor_events import DevEventListener, DevSupervisorEvents
from paddock.host.dev.traffic_tap import TrafficTap, tap_transport
from paddock.host.learn.trial_run import TrialFencing
from paddock.host.plugins.capability_services import open_capability_services
from paddock.host.plugins.launch.filesystem_probe import FilesystemProbe
from paddock.host.plugins.logs.plugin_logs import DenialLogger, open_plugin_logs
from paddock.host.secrets.keys import load_secret_keys
from paddock.host.wiring.gate import build_approvals, build_gate
from paddock.ledger.write.lifespan import open_ledger
from paddock.plugins.store.store import open_plugin_store
from paddock.plugins.store.thread import open_store_thread
from paddock.queue.node import open_node
from paddock.runtime.instance import SupervisorDeps
from paddock.runtime.launcher import PluginLauncher
from paddock.runtime.limits.start_throttle import StartThrottle
from paddock.runtime.protocols.select import select_adapter
from paddock.runtime.supervisor import open_supervisor
from paddock.store.database import open_database

SNAPSHOTS_FOLDER = "workshop"  # in the home's data directory, beside the trees of installed plugins


@asynccontextmanager
async def open_dev_host(
    home: Path,
    folder: Path,
    listener: DevEventListener,
    *,
    environ: Mapping[str, str],
    tap: Callable[[], TrafficTap],
    config: Mapping[str, Any] | None = None,
    secrets: Mapping[str, Secret] | None = None,
    lasting: bool = False,
) -> AsyncGenerator[DevHost, None]:
    """Open a dev host for as long as the block runs; afterwards only the plugin's data in the home is left.

    Args:
        home: The home directory: databases, key-value data, files and logs.
        folder: The plugin's folder, as its author edits it.
        listener: Receives events.
        environ: The environment, for settings and references.
        tap: Creates a traffic listener for each process.
        config: The plugin's configuration, as far as the home does not set it.
        secrets: Secrets from the author, by name.
        lasting: Whether the home outlives the block.

    Raises:
        Conflict: the home already has one of the secrets.
        StoreUnavailable: another session or a daemon uses the home.
    """
    environ = {**environ, "PADDOCK_HOME": str(home)}
    directories = find_directories(environ, Path.home())
    create_directories(directories)
    settings = load_settings(directories, environ).settings
    clock, random = SystemClock(), SystemRandom()
    keys = load_secret_keys(directories, settings, environ)
    if not lasting:  # delete the key with the home; in a keyring it would stay
        keys = dataclasses.replace(keys, preferred="file")
    trees = directories.data / SNAPSHOTS_FOLDER
    open_store = partial(open_plugin_store, directories, settings, clock=clock, only_connection=False)
    async with (
        open_plugin_logs(directories.state / "logs", clock) as logs,
        open_database(settings.store.url or directories.database_file, role="daemon") as database,
        open_ledger(database, clock, random, state=directories.state) as ledger,
        open_node(database, clock, random, state=directories.state, daemon=True) as node,
        open_store_thread(open_store) as store,
        open_cage_network(lambda tenant: DenialLogger(ledger.publisher(tenant), logs, tenant)) as network,
        open_warden(network=network, trees=trees) as warden,
        open_capability_services(
            directories.data / "storage",
            database,
            logs,
            shipped_policy_check(),
            publish_for=lambda tenant: DenialLogger(ledger.publisher(tenant), logs, tenant),
            clock=clock,
            random=random,
            keys=keys,
            may_call=_may_not_call,
            fencing=TrialFencing(database),
        ) as services,
        scoped_tasks() as tasks,
    ):
        # The store's lock is ours by now, so existing files are left from a killed session.
        await asyncio.to_thread(shutil.rmtree, trees, ignore_errors=True)
        if secrets:
            await store.run(lambda plugins: store_given_secrets(plugins, keys, secrets))
        supervisor_events = DevSupervisorEvents(
            logs,
            listener,
            on_ended=lambda key: tasks.start_soon(
                services.storage.rollback_of_instance, key.tenant, key.plugin, key.digest
            ),
            on_tools=lambda tools: dev_host.update_tools(tools),
        )
        preparer = SnapshotLaunchPreparer(
            store, FilesystemProbe(DiskFilesystem()), directories, settings, environ, keys, logs, config or {}
        )
        mcp_timeout_s = settings.plugins.mcp_timeout_ms / 1000
        launcher = PluginLauncher(
            warden.launch, clock, network, connect_timeout_s=mcp_timeout_s, open_transport=tap_transport(tap)
        )
        deps = SupervisorDeps(
            launch=launcher.launch,
            adapter_for=partial(select_adapter, answer_request=services.dispatcher.answer, mcp_timeout_s=mcp_timeout_s),
            prepare=preparer,
            publish_for=ledger.publisher,
            observer=supervisor_events,
            clock=clock,
            random=random,
            start_throttle=StartThrottle(),
            is_node_lost=lambda: node.lease_at_risk,
        )
        async with open_supervisor(deps, call_timeout=settings.limits.call_timeout_s) as supervisor:
            parts = DevHostParts(
                supervisor=supervisor,
                gate=build_gate(
                    supervisor,
                    ledger=ledger,
                    database=database,
                    authorizer=AllowAll(),
                    approvals=build_approvals(database, clock, random),
                    rate_limiter=RateLimiter(NO_LIMITS, DailyQuotas(NO_LIMITS, clock), clock.monotonic),
                    secrets=services.secrets,
                    clock=clock,
                    random=random,
                    node=node,
                    catalogues=Catalogues(),
                ),
                preparer=preparer,
                supervisor_events=supervisor_events,
                launch=launcher.launch,
                answer_request=services.dispatcher.answer,
                mcp_timeout_s=mcp_timeout_s,
                logs=logs,
                publish=ledger.publisher(DEFAULT_TENANT),
                tasks=tasks,
                clock=clock,
                random=random,
                trees=trees,
            )
            dev_host = DevHost(folder, parts, listener)
            try:
                yield dev_host
            finally:
                if dev_host.serving is not None:
                    dev_host.serving.copy.remove()


async def _may_not_call(context: CallContext, plugin: str, callable_name: str) -> bool:
    """Answer for the artifact service. The author is the only caller, and reads all artifacts as the operator."""
    del context, plugin, callable_name
    return False
