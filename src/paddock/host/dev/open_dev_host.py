"""Opening a workshop: the parts of a host that one plugin under development needs, in a home of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from paddock.cage.network.egress_proxy import open_cage_network
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.warden.client import open_warden
from paddock.capabilities.authorization import shipped_policy_check
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.secret import Secret
from paddock.core.tasks import scoped_tasks
from paddock.gate.admission.quotas import NO_LIMITS, DailyQuotas
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import AllowAll
from paddock.host.dev.author import store_given_secrets
from paddock.host.dev.dev_host import DevHost, DevHostParts
from paddock.host.dev.snapshot import SnapshotLaunchPreparer
from paddock.host.dev.supervisor_events import DevEventListener, DevSupervisorEvents
from paddock.host.dev.traffic_tap import TappedEndpointLauncher, TrafficTap
from paddock.host.plugins.capability_services import open_capability_services
from paddock.host.plugins.launch.filesystem_probe import FilesystemProbe
from paddock.host.plugins.logs.plugin_logs import DenialLogger, open_plugin_logs
from paddock.host.secrets.keys import load_secret_keys
from paddock.host.wiring.gate import DropMethodEvents, build_approvals, build_gate
from paddock.ledger.write.lifespan import open_ledger
from paddock.plugins.store.store import open_plugin_store
from paddock.plugins.store.thread import open_store_thread
from paddock.queue.node import open_node
from paddock.runtime.instance import SupervisorDeps
from paddock.runtime.protocols.select import select_adapter
from paddock.runtime.supervisor import open_supervisor
from paddock.runtime.throttle import StartThrottle
from paddock.store.database import open_database

SNAPSHOTS_FOLDER = "workshop"  # below a home's data, beside the trees of what is installed there


@asynccontextmanager
async def open_dev_host(
    home: Path,
    folder: Path,
    audience: DevEventListener,
    *,
    environ: Mapping[str, str],
    tap: Callable[[], TrafficTap],
    config: Mapping[str, Any] | None = None,
    secrets: Mapping[str, Secret] | None = None,
    lasting: bool = False,
) -> AsyncGenerator[DevHost, None]:
    """A workshop for as long as the block runs; afterwards nothing of the plugin is left but what it kept in the home.

    Args:
        home: Where tables, kept values, files and logs are.
        folder: The plugin's, as its author has it.
        audience: Told what happens.
        environ: The environment, for settings and references to it.
        tap: Makes a listener for each process.
        config: The plugin's configuration, as far as the home does not say it.
        secrets: Secrets that the author gives it, by name.
        lasting: Whether the home is there for longer than the block.

    Raises:
        Conflict: one of the secrets is the home's own already.
        StoreUnavailable: another session or a daemon has the home.
    """
    environ = {**environ, "PADDOCK_HOME": str(home)}
    directories = find_directories(environ, Path.home())
    create_directories(directories)
    settings = load_settings(directories, environ).settings
    clock, random = SystemClock(), SystemRandom()
    keys = load_secret_keys(directories, settings, environ)
    if not lasting:  # the key goes with the home; in a keyring it would stay
        keys = replace(keys, preferred="file")
    trees = directories.data / SNAPSHOTS_FOLDER
    opening = partial(open_plugin_store, directories, settings, clock=clock)
    async with (
        open_plugin_logs(directories.state / "logs", clock) as logs,
        open_database(settings.store.url or directories.database_file, role="daemon") as database,
        open_ledger(database, clock, random, state=directories.state) as events,
        open_node(database, clock, random, state=directories.state, daemon=True) as node,
        open_store_thread(opening) as store,
        open_cage_network(lambda tenant: DenialLogger(events.publisher(tenant), logs, tenant)) as network,
        open_warden(network=network, trees=trees) as warden,
        open_capability_services(
            directories.data / "storage",
            database,
            logs,
            shipped_policy_check(),
            publish_for=lambda tenant: DenialLogger(events.publisher(tenant), logs, tenant),
            clock=clock,
            random=random,
            keys=keys,
        ) as services,
        scoped_tasks() as tasks,
    ):
        # The store is ours alone by now, so what lies there is what a killed session left.
        await asyncio.to_thread(shutil.rmtree, trees, ignore_errors=True)
        if secrets:
            await store.run(lambda own: store_given_secrets(own, keys, secrets))
        news = DevSupervisorEvents(logs, audience)
        news.on_gone = lambda key: tasks.start_soon(
            services.storage.rollback_of_instance, key.tenant, key.plugin, key.digest
        )
        starter = SnapshotLaunchPreparer(
            store, FilesystemProbe(DiskFilesystem()), directories, settings, environ, keys, logs, config or {}
        )
        bodies = TappedEndpointLauncher(warden, clock, tap, network)
        around = SupervisorDeps(
            launcher=bodies,
            adapter_for=partial(select_adapter, capabilities=services.dispatcher),
            prepare=starter,
            publish_for=lambda tenant: DropMethodEvents(events.publisher(tenant)),
            observer=news,
            clock=clock,
            random=random,
            start_throttle=StartThrottle(),
        )
        async with open_supervisor(around, call_timeout=settings.limits.call_timeout_s) as supervisor:
            parts = DevHostParts(
                supervisor=supervisor,
                gate=build_gate(
                    supervisor,
                    ledger=events,
                    database=database,
                    decides=AllowAll(),
                    approvals=build_approvals(database, clock, random),
                    limits=RateLimiter(NO_LIMITS, DailyQuotas(NO_LIMITS, clock), clock.monotonic),
                    secrets=services.secrets,
                    clock=clock,
                    random=random,
                    node=node,
                ),
                starter=starter,
                news=news,
                bodies=bodies,
                door=services.dispatcher,
                logs=logs,
                publish=events.publisher(DEFAULT_TENANT),
                tasks=tasks,
                clock=clock,
                random=random,
                trees=trees,
            )
            workshop = DevHost(folder, parts, audience)
            try:
                yield workshop
            finally:
                if workshop.serving is not None:
                    workshop.serving.copy.remove()
