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

from paddock.cage.network.serving import open_network
from paddock.cage.plan.machine import DiskMachine
from paddock.cage.warden.launching import open_warden
from paddock.capabilities.deciding import by_the_shipped_rules
from paddock.config.directories import create_directories, find_directories
from paddock.config.load import load_settings
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.secret import Secret
from paddock.gate.deciding import TheirOwn
from paddock.gate.limits import Limits
from paddock.gate.quotas import Quotas
from paddock.gate.rates import NO_LIMIT
from paddock.host.door import open_services
from paddock.host.gating import BesideTheGate, approvals_on, gate_to
from paddock.host.looking import Looks
from paddock.host.plugin_logs import open_plugin_logs
from paddock.host.refusals import LoggedRefusals
from paddock.host.secret_keys import secret_keys
from paddock.host.workshop.news import Audience, WorkshopNews
from paddock.host.workshop.secrets import keep_given
from paddock.host.workshop.starting import FolderStarter
from paddock.host.workshop.tapping import Tap, TappedBodies
from paddock.host.workshop.workshop import Parts, Workshop
from paddock.ledger.opening import open_ledger
from paddock.plugins.opening import open_plugin_store
from paddock.plugins.runtimes.choosing import wire_for
from paddock.plugins.store_thread import open_store_thread
from paddock.plugins.supervision.keeper import Surroundings
from paddock.plugins.supervision.owned_tasks import owned_tasks
from paddock.plugins.supervision.start_gate import StartGate
from paddock.plugins.supervision.supervisor import open_supervisor
from paddock.queue.node import open_node
from paddock.store.database import open_database

TREES = "workshop"  # below a home's data, beside the trees of what is installed there


@asynccontextmanager
async def open_workshop(
    home: Path,
    folder: Path,
    audience: Audience,
    *,
    environ: Mapping[str, str],
    tap: Callable[[], Tap],
    config: Mapping[str, Any] | None = None,
    secrets: Mapping[str, Secret] | None = None,
    lasting: bool = False,
) -> AsyncGenerator[Workshop, None]:
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
    keys = secret_keys(directories, settings, environ)
    if not lasting:  # the key goes with the home; in a keyring it would stay
        keys = replace(keys, preferred="file")
    trees = directories.data / TREES
    opening = partial(open_plugin_store, directories, settings, clock=clock)
    async with (
        open_plugin_logs(directories.state / "logs", clock) as logs,
        open_database(settings.store.url or directories.database_file, role="daemon") as database,
        open_ledger(database, clock, random, state=directories.state) as events,
        open_node(database, clock, random, state=directories.state, lasting=True) as node,
        open_store_thread(opening) as store,
        open_network(lambda tenant: LoggedRefusals(events.publisher(tenant), logs, tenant)) as network,
        open_warden(network=network, trees=trees) as warden,
        open_services(
            directories.data / "storage",
            database,
            logs,
            by_the_shipped_rules(),
            publish_for=lambda tenant: LoggedRefusals(events.publisher(tenant), logs, tenant),
            clock=clock,
            random=random,
            keys=keys,
        ) as services,
        owned_tasks() as tasks,
    ):
        # The store is ours alone by now, so what lies there is what a killed session left.
        await asyncio.to_thread(shutil.rmtree, trees, ignore_errors=True)
        if secrets:
            await store.run(lambda own: keep_given(own, keys, secrets))
        news = WorkshopNews(logs, audience)
        news.on_gone = lambda key: tasks.start_soon(services.storage.ended, key.tenant, key.plugin, key.digest)
        starter = FolderStarter(store, Looks(DiskMachine()), directories, settings, environ, keys, logs, config or {})
        bodies = TappedBodies(warden, clock, tap, network)
        around = Surroundings(
            bodies=bodies,
            wire_for=partial(wire_for, door=services.door),
            prepare=starter,
            publish_for=lambda tenant: BesideTheGate(events.publisher(tenant)),
            watcher=news,
            clock=clock,
            random=random,
            starts=StartGate(),
        )
        async with open_supervisor(around, call_timeout=settings.limits.call_timeout_s) as supervisor:
            parts = Parts(
                supervisor=supervisor,
                gate=gate_to(
                    supervisor,
                    ledger=events,
                    database=database,
                    decides=TheirOwn(),
                    approvals=approvals_on(database, clock, random),
                    limits=Limits(NO_LIMIT, Quotas(NO_LIMIT, clock), clock.monotonic),
                    secrets=services.secrets,
                    clock=clock,
                    random=random,
                    node=node,
                ),
                starter=starter,
                news=news,
                bodies=bodies,
                door=services.door,
                logs=logs,
                publish=events.publisher(DEFAULT_TENANT),
                tasks=tasks,
                clock=clock,
                random=random,
                trees=trees,
            )
            workshop = Workshop(folder, parts, audience)
            try:
                yield workshop
            finally:
                if workshop.serving is not None:
                    workshop.serving.copy.remove()
