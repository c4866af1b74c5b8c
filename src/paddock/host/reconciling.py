"""What runs is what the rows say: compares the two, starts what is new and ends what is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from anyio.abc import TaskGroup

from paddock.core.errors import Modified, NotFound, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.catalogue import Catalogue, Entry
from paddock.gate.gate import Gate
from paddock.host.enabled import Enabled, EnabledPlugins, Unfit
from paddock.host.log_files import log_name
from paddock.host.plugin_logs import PluginLogs
from paddock.host.starting import Starter
from paddock.plugins.enabling import disable
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.supervision.deployment import Deployment, InstanceKey, Status
from paddock.plugins.supervision.ending import in_one_sentence
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.supervisor import Supervisor

_log = logging.getLogger("paddock.host")

LOOK_AGAIN = 5.0  # seconds between two looks at the rows, for changes that nobody told us about

Owned: TypeAlias = tuple[Tenant, str]
"""A tenant's plugin, by the names of both."""


class Reconciler:
    """Keeps the supervisor and the catalogues in step with the rows, for all tenants in one look.

    Args:
        store: Where the rows are read.
        supervisor: What runs.
        gate: Whose catalogues are replaced.
        starter: Knows each plugin's configuration.
        logs: Where a configuration that cannot be used is told.
        tasks: For endings that nobody waits for.
        eager: Whether eager plugins of the default tenant start at once; otherwise each starts at its first call.
    """

    def __init__(
        self,
        store: StoreThread,
        supervisor: Supervisor,
        gate: Gate,
        starter: Starter,
        logs: PluginLogs,
        tasks: TaskGroup,
        *,
        eager: bool,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._gate = gate
        self._starter = starter
        self._logs = logs
        self._tasks = tasks
        self._eager = eager
        self._enabled = EnabledPlugins()
        self._wanted: dict[InstanceKey, Deployment] = {}
        self._given_up: dict[InstanceKey, str] = {}  # and why, until that is written down
        self._telling: dict[InstanceKey, asyncio.Event] = {}
        self._returning: dict[InstanceKey, asyncio.Event] = {}
        self._retiring: dict[InstanceKey, asyncio.Event] = {}
        self._distrusted: set[InstanceKey] = set()  # files changed under them: they are being ended
        self._refused: dict[InstanceKey, Mapping[str, Any]] = {}  # the configuration that a plugin did not take
        self._doubtful: set[InstanceKey] = set()  # nobody knows whether they took what is not kept
        self.unused: dict[InstanceKey, str] = {}  # why it is not used, which was said
        self._looking = asyncio.Lock()
        self._asked = self._answered = 0  # how often for a look, and up to which time one was taken since
        self.keys: dict[Owned, InstanceKey] = {}  # the version that is in use
        self.unfit: dict[Owned, Unfit] = {}
        self.embedded: dict[str, Enabled] = {}  # by plugin: what the application around us brings the default tenant
        self._listings: dict[Owned, object] = {}  # the fingerprint of the tools that the catalogue has
        self.on_offered: Callable[[], None] = lambda: None  # hears each time that catalogues were replaced
        # What each catalogue was made of.
        self._offered: Mapping[Tenant, tuple[tuple[Entry, ...], Mapping[str, str]]] = {}

    async def reconcile(self) -> None:
        """Compare what runs with what the rows want: start what is new, end what is gone, tell of new settings.

        What takes its time, an ending or a plugin that is slow to take its settings, goes on by itself: one plugin
        never holds up another. All who ask while a look is under way share the next one.

        Raises:
            PaddockError: the rows cannot be read; everything stays as it is.
        """
        self._asked += 1
        mine = self._asked
        async with self._looking:
            if self._answered >= mine:
                return  # a look that began after we asked is over
            asked = self._asked
            await self._look()
            self._answered = asked

    async def _look(self) -> None:
        await self._disable_given_up()
        rows, unfit = await self._store.run(self._enabled.read)
        brought = {(DEFAULT_TENANT, name) for name in self.embedded}
        wanted = [*self.embedded.values(), *(one for one in rows if owned(one.deployment.key) not in brought)]
        self.unfit = {owned(one.key): one for one in unfit}
        before = self.keys
        self.keys = {owned(one.deployment.key): one.deployment.key for one in wanted}
        self._wanted = {one.deployment.key: one.deployment for one in wanted}
        for one in wanted:
            key = one.deployment.key
            if before.get(owned(key)) != key:
                self._deploy(one.deployment, start=self._eager and one.deployment.manifest.start == "eager")
            else:
                self._deploy(one.deployment, start=False)
                if key not in self._telling:
                    self._telling[key] = asyncio.Event()
                    self._begin(self._tell_new_config, key)
        # Calls go to the new ones from here on; the old ones get to finish theirs.
        self._offer(wanted)
        self._listings = {owned(one.deployment.key): one.listing.fingerprint for one in wanted}
        for status in self._supervisor.statuses():
            if status.key not in self._wanted and not self._explains(status):
                self._retire(status.key)

    def _offer(self, wanted: Iterable[Enabled]) -> None:
        """Replace the catalogues of those tenants that can call something else than before."""
        entries: dict[Tenant, list[Entry]] = {tenant: [] for tenant in self._enabled.lost}
        for one in wanted:
            entries.setdefault(one.deployment.key.tenant, []).append(one.entry)
        offered = {tenant: (tuple(theirs), self._enabled.lost.get(tenant, {})) for tenant, theirs in entries.items()}
        before, known = self._gate.catalogues, self._offered
        # One that stays keeps its targets, and what is remembered about them.
        self._gate.catalogues = {
            tenant: before[tenant] if known.get(tenant) == made_of else Catalogue(*made_of, tenant)
            for tenant, made_of in offered.items()
        }
        if self._offered != offered:
            self._offered = offered
            self.on_offered()

    def listing(self, key: InstanceKey) -> object:
        """The fingerprint of the tools that can be called of a plugin; None where it is not enabled."""
        return self._listings.get(owned(key))

    async def unused_config(self, key: InstanceKey) -> str:
        """Why a plugin goes on with the configuration that it has, once it was told of the one that there is by now."""
        if (telling := self._telling.get(key)) is not None:
            await telling.wait()
        return self.unused.get(key, "")

    @asynccontextmanager
    async def alone_with(self, key: InstanceKey) -> AsyncGenerator[None, None]:
        """Tells a plugin nothing of its configuration while the block runs, which does."""
        while (telling := self._telling.get(key)) is not None:
            await telling.wait()
        self._telling[key] = asyncio.Event()
        try:
            yield
        finally:
            self._telling.pop(key).set()

    def doubt(self, key: InstanceKey) -> None:
        """A plugin may have taken a configuration that is not kept: the next look tells it again what is."""
        self._doubtful.add(key)

    async def carried_out(self) -> None:
        """Wait for what the last look began: settings told, and plugins back that were still being ended."""
        for under_way in (*self._telling.values(), *self._returning.values()):
            await under_way.wait()

    def _explains(self, status: Status) -> bool:
        """Whether it stays in view, so that people see why it was given up."""
        return status.state is State.FAILED and status.key in self._given_up

    async def enable(self, key: InstanceKey) -> Status:
        """Start a plugin that the rows want, its failures forgotten, and wait until it runs or is known not to."""
        self._given_up.pop(key, None)
        if (returning := self._returning.get(key)) is not None:
            await returning.wait()
        self._supervisor.enable(key)
        return await self._supervisor.settled(key)

    def try_again(self) -> None:
        """Start those once more that were refused for their files, without waiting for that: somebody may have put them
        back, and every start compares them."""
        for status in self._supervisor.statuses():
            refused = status.state is State.FAILED and status.error_code == Modified.code
            if refused and status.key in self._wanted:
                self._supervisor.enable(status.key)

    async def start_failed(self, key: InstanceKey) -> None:
        """Start a plugin once more that is not tried any more, and wait for that: what kept it from running may be
        mended."""
        found = self._supervisor.statuses_of(key.tenant, key.plugin)
        if any(status.key == key and status.state is State.FAILED for status in found):
            await self.enable(key)

    async def restart(self, key: InstanceKey) -> Status:
        """The same with a new process: one that runs is ended first, after the calls under way."""
        await self._supervisor.stop(key)
        return await self.enable(key)

    def distrust(self, key: InstanceKey) -> None:
        """Somebody saw that the files of a plugin changed: what runs of it must not load more of them.

        It is started anew, without waiting for that, and every start compares the files: so it ends up refused, with
        the reason for all to see, or runs with the right files where they were restored meanwhile.
        """
        status = self._supervisor.status(key)
        if status is not None and status.state is State.RUNNING and key not in self._distrusted:
            self._distrusted.add(key)
            self._begin(self._started_anew, key)

    async def _started_anew(self, key: InstanceKey) -> None:
        try:
            await self.restart(key)
        finally:
            self._distrusted.discard(key)

    async def forget(self, plugin: str, tenant: Tenant | None = None) -> None:
        """End every process of a plugin that the rows no longer want, and wait for that; of one tenant, or of all."""
        for status in self._supervisor.statuses():
            ours = status.key.plugin == plugin and tenant in (None, status.key.tenant)
            if ours and status.key not in self._wanted:
                self._given_up.pop(status.key, None)
                self._retire(status.key)
                await self._retiring[status.key].wait()

    def _deploy(self, deployment: Deployment, *, start: bool) -> None:
        if deployment.key in self._returning:
            return
        if deployment.key in self._retiring:
            self._returning[deployment.key] = asyncio.Event()
            self._begin(self._deploy_again, deployment, start)
        else:
            self._supervisor.deploy(deployment, start=start)

    async def _deploy_again(self, deployment: Deployment, start: bool) -> None:
        """One that is wanted again while it is still being ended has to be gone first."""
        key = deployment.key
        try:
            if (retired := self._retiring.get(key)) is not None:
                await retired.wait()
            if key in self._wanted:
                self._supervisor.deploy(self._wanted[key], start=start)
        finally:
            self._returning.pop(key).set()

    def _retire(self, key: InstanceKey) -> None:
        """End a plugin once its calls are done, without waiting for that."""
        if key not in self._retiring:
            self._retiring[key] = asyncio.Event()
            self._begin(self._retired, key)

    async def _retired(self, key: InstanceKey) -> None:
        try:
            await self._supervisor.disable(key)
        finally:
            self._retiring.pop(key).set()

    async def _tell_new_config(self, key: InstanceKey) -> None:
        try:
            status = self._supervisor.status(key)
            if status is None or status.state is not State.RUNNING:
                self.unused.pop(key, None)
                self._doubtful.discard(key)
                return  # it reads them when it starts
            manifest = self._supervisor.deployment(key).manifest
            config = await self._store.run(lambda store: self._starter.config_of(store, manifest), key.tenant)
            # What it has, and what it refused, it need not be told again at every look.
            if config == self._refused.get(key):
                return
            if config != self._supervisor.config_of(key) or key in self._doubtful:
                self._refused[key] = config
                await self._supervisor.configure(key, config)
            self._refused.pop(key, None)
            self._doubtful.discard(key)
            self.unused.pop(key, None)
        except PaddockError as error:
            self._say_unused(key, error)
        finally:
            self._telling.pop(key).set()

    def _say_unused(self, key: InstanceKey, error: PaddockError) -> None:
        """Say once why the new configuration is not used."""
        words = in_one_sentence(error)
        if self.unused.get(key) != words:
            self.unused[key] = words
            log = log_name(key.tenant, key.plugin)
            self._logs.write(log, f"[paddock] the new configuration is not used: {words}")

    async def look_again(self) -> None:
        """Reconcile, again and again."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                await self.reconcile()
            except PaddockError:
                pass  # the store is in trouble; calls say so
            except Exception as error:
                tell_of(self.reconcile, error)

    def give_up(self, key: InstanceKey, reason: str) -> None:
        """A plugin failed too often: disable it, so that the next daemon does not begin all over."""
        self._given_up[key] = f"failed too often: {reason}"
        self._begin(self.reconcile)

    async def _disable_given_up(self) -> None:
        """Write down who was given up; what cannot be written now is written at a later look."""
        for key, why in tuple(self._given_up.items()):  # others are given up, or enabled again, meanwhile
            if self.keys.get(owned(key)) != key or not why:
                continue
            with contextlib.suppress(NotFound):  # uninstalled: nothing is left to disable
                await self._store.run(partial(disable, name=key.plugin, given_up=why), key.tenant)
            if self._given_up.get(key) == why:
                self._given_up[key] = ""  # written

    def _begin(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._tasks.start_soon(self._contained, work, arguments)

    async def _contained(self, work: Callable[..., Awaitable[None]], arguments: tuple[Any, ...]) -> None:
        """Work that nobody waits for. Its failure is told and takes nothing else with it."""
        try:
            await work(*arguments)
        except PaddockError as error:
            _log.warning("%s: %s", work.__name__, error.message)  # looked at again soon
        except Exception as error:
            tell_of(work, error)


def owned(key: InstanceKey) -> Owned:
    """Whose plugin it is, whatever its version."""
    return key.tenant, key.plugin


def tell_of(work: Callable[..., Awaitable[None]], error: Exception) -> None:
    """A mistake of ours is told where such things are told; the host goes on."""
    asyncio.get_running_loop().call_exception_handler({"message": f"{work.__name__} failed", "exception": error})
