"""The host itself: `open_host` builds every part, hands each what it needs, and closes them all in reverse."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from anyio.abc import TaskGroup

from paddock.cage.network import open_network
from paddock.cage.warden import open_warden
from paddock.config.directories import Directories, create_directories, find_directories
from paddock.config.load import load_settings
from paddock.config.settings import Settings
from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock, SystemClock, SystemRandom
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, OperatorId, PrincipalId, RequestId, new_id
from paddock.gate.calls import Calls
from paddock.gate.catalogue import Catalogue
from paddock.gate.gate import Gate
from paddock.host.enabled import EnabledPlugins, Unreadable
from paddock.host.plugin_logs import PluginLogs, last_lines
from paddock.host.starting import Starter
from paddock.host.watching import PluginNews
from paddock.plugins.details import details_of
from paddock.plugins.enabling import disable, enable
from paddock.plugins.listing import Listed, list_plugins
from paddock.plugins.opening import open_plugin_store
from paddock.plugins.registry import require_plugin
from paddock.plugins.store_thread import StoreThread, open_store_thread
from paddock.plugins.supervision.closed_door import ClosedDoor
from paddock.plugins.supervision.deployment import InstanceKey, Status
from paddock.plugins.supervision.flight import OnEvent
from paddock.plugins.supervision.keeper import Surroundings
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.owned_tasks import owned_tasks
from paddock.plugins.supervision.start_gate import StartGate
from paddock.plugins.supervision.supervisor import DRAIN, Supervisor, open_supervisor
from paddock.store.database import open_database
from paddock.store.event_writer import EventWriter, open_event_writer

LOOK_AGAIN = 5.0  # seconds between two looks at the rows, for changes that nobody told us about


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


class Host:
    """A running host. Made by `open_host`."""

    def __init__(
        self,
        *,
        config: Config,
        directories: Directories,
        settings: Settings,
        store: StoreThread,
        views: StoreThread,
        supervisor: Supervisor,
        starter: Starter,
        events: EventWriter,
        logs: PluginLogs,
        news: PluginNews,
        tasks: TaskGroup,
        clock: Clock,
    ) -> None:
        self.directories = directories
        self.settings = settings
        self.events = events
        self._config = config
        self._store = store
        self._views = views  # a second thread, so that looking never waits behind a start that reads a large package
        self._supervisor = supervisor
        self._starter = starter
        self._logs = logs
        self._news = news
        self._tasks = tasks
        self._clock = clock
        self._random = SystemRandom()
        self._gate = Gate(supervisor, lambda: events.failing)
        self.calls = Calls(self._gate, tasks, clock, self._random)
        self._keys: dict[str, InstanceKey] = {}  # by plugin: the version that is in use
        self._unreadable: dict[str, Unreadable] = {}
        self._configs: dict[InstanceKey, Mapping[str, Any]] = {}
        self._enabled = EnabledPlugins()
        self._retiring: set[InstanceKey] = set()
        self._looking = asyncio.Lock()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        context: CallContext | None = None,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Call `<plugin>.<callable>` and wait for the result.

        Raises:
            PaddockError: whatever stood in the way.
        """
        target = self._gate.catalogue.find(name)
        return await self._gate.call(target, params, context or self.operator_context(None), on_event=on_event)

    def operator_context(self, operator: str | None) -> CallContext:
        """The context of a call that the person at this machine makes."""
        return CallContext(
            principal=Principal(PrincipalId(f"local:{operator or 'operator'}"), roles=frozenset({"operator"})),
            request=RequestId(new_id("req", self._clock, self._random)),
            operator=OperatorId(operator) if operator else None,
        )

    def callables(self) -> tuple[str, ...]:
        """The full names of everything that can be called."""
        return self._gate.catalogue.names()

    # --- plugins ------------------------------------------------------------------------------------------------------

    async def plugins(self) -> list[dict[str, Any]]:
        """Every installed plugin, with how it is doing."""
        listed = await self._views.run(list_plugins)
        return [self._listed(one) for one in listed]

    async def plugin(self, name: str) -> dict[str, Any]:
        """Everything about one installed plugin.

        Raises:
            NotFound: it is not installed.
        """
        details = await self._views.run(lambda store: details_of(store, name))
        facts = details.to_value()
        return facts | {"runtime": self._runtime(facts["name"])}

    async def enable(self, name: str) -> dict[str, Any]:
        """Let a plugin run, and wait until it does or is known not to.

        Raises:
            PaddockError: it must not be enabled; see `plugins/enabling.py`.
        """
        row = await self._store.run(lambda store: enable(store, name))
        await self.reconcile()
        key = self._keys[row.plugin]
        self._supervisor.enable(key)
        status = await self._supervisor.settled(key)
        return {"name": row.plugin, "version": row.version, **runtime_value(status)}

    async def disable(self, name: str) -> dict[str, Any]:
        """End a plugin and let it run no more."""
        plugin = await self._store.run(lambda store: disable(store, name))
        key = self._keys.get(plugin.name)
        await self.reconcile()
        if key is not None:
            await self._supervisor.disable(key)
            self._keys.pop(plugin.name, None)
        return {"name": plugin.name, "version": plugin.current_version, "state": "disabled"}

    async def logs(self, name: str, *, lines: int = 50) -> list[dict[str, Any]]:
        """The last lines that a plugin wrote to its standard error, oldest first."""
        plugin = await self._name(name)
        return await asyncio.to_thread(last_lines, self._logs.directory, plugin, lines)

    async def follow_logs(self, name: str) -> AsyncIterator[dict[str, Any]]:
        """Its lines from now on."""
        async for entry in self._logs.follow(await self._name(name)):
            yield entry

    async def follow_notifications(self, name: str) -> AsyncIterator[dict[str, Any]]:
        """What it announces from now on."""
        async for entry in self._news.follow(await self._name(name)):
            yield entry

    def statuses(self) -> tuple[Status, ...]:
        """How every plugin that is known to the supervisor is doing."""
        return self._supervisor.statuses()

    async def settled(self) -> tuple[Status, ...]:
        """The same, once each of them runs or is known not to."""
        for status in self._supervisor.statuses():
            if status.state in (State.SPAWNING, State.DISABLED) and self._keys.get(status.key.plugin) == status.key:
                await self._supervisor.settled(status.key)
        return self._supervisor.statuses()

    # --- what runs is what the rows say -------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Compare what runs with what the rows want: start what is new, end what is gone, tell of new settings."""
        async with self._looking:
            wanted, unreadable = await self._store.run(self._enabled.read)
            self._unreadable = {one.name: one for one in unreadable}
            keys: dict[str, InstanceKey] = {one.deployment.name: one.deployment.key for one in wanted}
            before, self._keys = self._keys, keys
            self._gate.catalogue = Catalogue(one.entry for one in wanted)
            for one in wanted:
                new = before.get(one.deployment.name) != one.deployment.key
                eager = self._config.start == "enabled" and one.deployment.manifest.start == "eager"
                self._supervisor.deploy(one.deployment, start=new and eager)
                if not new:
                    await self._tell_new_config(one.deployment.key)
            for status in self._supervisor.statuses():
                given_up = status.state is State.FAILED and keys.get(status.key.plugin) is None
                if status.key not in keys.values() and not given_up:  # those stay, so that people see why
                    self._retire(status.key)

    def _retire(self, key: InstanceKey) -> None:
        """End a plugin once its calls are done, without waiting for that."""
        if key not in self._retiring:
            self._retiring.add(key)
            self._tasks.start_soon(self._retired, key)

    async def _retired(self, key: InstanceKey) -> None:
        try:
            await self._supervisor.disable(key)
        finally:
            self._retiring.discard(key)

    async def _tell_new_config(self, key: InstanceKey) -> None:
        status = self._supervisor.status(key)
        if status is None or status.state is not State.RUNNING:
            return
        manifest = self._supervisor.deployment(key).manifest
        try:
            config = await self._store.run(lambda store: self._starter.config_of(store, manifest))
            if self._configs.setdefault(key, config) != config:
                self._configs[key] = config
                await self._supervisor.configure(key, config)
        except PaddockError as error:
            self._logs.write(key.plugin, f"[paddock] the new configuration is not used: {error.message}")

    async def look_again(self) -> None:
        """Reconcile, again and again."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                await self.reconcile()
            except PaddockError:
                continue  # the store is in trouble; calls say so

    async def drain(self) -> None:
        """Take no new calls and wait for those under way, for a while."""
        await self.calls.drain(DRAIN)

    def give_up(self, key: InstanceKey, reason: str) -> None:
        """A plugin failed too often: disable it, so that the next daemon does not begin all over."""
        why = f"failed too often: {reason}"
        self._tasks.start_soon(self._disable_row, key, why)

    async def _disable_row(self, key: InstanceKey, why: str) -> None:
        if self._keys.get(key.plugin) == key:
            await self._store.run(lambda store: disable(store, key.plugin, why))

    async def _name(self, name: str) -> str:
        plugin = await self._views.run(lambda store: store.database.read(lambda tx: require_plugin(tx, name)))
        return plugin.name

    def _listed(self, one: Listed) -> dict[str, Any]:
        return {
            "name": one.plugin.name,
            "version": one.version.version if one.version else one.plugin.current_version,
            "state": one.state.value,
            "kind": one.kind,
            "description": one.description,
            "runtime": self._runtime(one.plugin.name),
        }

    def _runtime(self, name: str) -> dict[str, Any] | None:
        unreadable = self._unreadable.get(name)
        if unreadable is not None:
            error = unreadable.error
            return {"state": State.DISABLED.value, "reason": f"invalid manifest: {error.message}", "hint": error.hint}
        found = [status for status in self._supervisor.statuses() if status.key.plugin == name]
        current = self._keys.get(name)
        return next((runtime_value(one) for one in found if one.key == current), None) or (
            runtime_value(found[-1]) if found else None
        )


def runtime_value(status: Status) -> dict[str, Any]:
    """How a plugin is doing, as data."""
    return {
        "state": status.state.value,
        "pid": status.pid,
        "cage_id": status.cage_id,
        "reason": status.reason,
        "hint": status.hint,
        "error_code": status.error_code,
        "failures": status.failures,
        "running_since": status.running_since,
        "restarts_in": status.restarts_in,
        "in_flight": status.in_flight,
        "calls": status.calls,
        "unavailable_methods": list(status.unavailable_methods),
        "features": list(status.features),
    }


@asynccontextmanager
async def open_host(config: Config | None = None) -> AsyncGenerator[Host, None]:
    """The host for as long as the block runs; afterwards no plugin is left.

    Raises:
        Invalid: the settings have mistakes; carries all of them.
        StoreUnavailable: another daemon has the store, or it cannot be opened.
    """
    config = config or Config()
    environ = dict(config.environ) | ({"PADDOCK_HOME": str(config.home)} if config.home else {})
    directories = find_directories(environ, Path.home())
    create_directories(directories)
    settings = load_settings(directories, environ, cwd=config.cwd).settings
    clock, random = SystemClock(), SystemRandom()
    logs = PluginLogs(directories.state / "logs", clock)
    news = PluginNews(logs)
    opening = partial(open_plugin_store, directories, settings, clock=clock)
    async with (
        open_database(settings.store.url or directories.database_file, role=config.role) as database,
        open_event_writer(database, clock, random) as events,
        open_store_thread(opening) as store,
        open_store_thread(opening) as views,
        open_network(events.publisher(DEFAULT_TENANT)) as network,
        open_warden(network=network) as warden,
        owned_tasks() as tasks,
    ):
        starter = Starter(store, directories, settings, environ)
        around = Surroundings(
            launcher=warden,
            prepare=starter,
            publish_for=events.publisher,
            door=ClosedDoor(),
            watcher=news,
            clock=clock,
            random=random,
            starts=StartGate(),
        )
        try:
            async with open_supervisor(around, call_timeout=settings.limits.call_timeout_s) as supervisor:
                host = Host(
                    config=config,
                    directories=directories,
                    settings=settings,
                    store=store,
                    views=views,
                    supervisor=supervisor,
                    starter=starter,
                    events=events,
                    logs=logs,
                    news=news,
                    tasks=tasks,
                    clock=clock,
                )
                news.on_given_up = host.give_up
                await host.reconcile()
                tasks.start_soon(host.look_again)
                try:
                    yield host
                finally:
                    await host.drain()
        finally:
            logs.close()
