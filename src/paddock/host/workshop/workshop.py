"""A plugin under its author's hands. A new copy of its folder takes over once it runs; until then the last one serves.

Everything around the process stays when the process is replaced: tables, kept values, the cache, the log, settings.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyio.abc import TaskGroup

from paddock.capabilities.door import Door
from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NeedsConsent, PaddockError, Unavailable
from paddock.core.event import Publish
from paddock.core.ids import DEFAULT_TENANT, PluginName, RequestId, new_id
from paddock.gate.catalogue import Catalogue, Entry, Schemas
from paddock.gate.gate import Gate
from paddock.host.plugin_logs import PluginLogs
from paddock.host.workshop.author_words import for_its_author, how_to_give
from paddock.host.workshop.copies import Copy, copied
from paddock.host.workshop.news import Audience, WorkshopNews
from paddock.host.workshop.secrets import AUTHOR
from paddock.host.workshop.starting import FolderStarter
from paddock.host.workshop.trial import Trial, on_trial
from paddock.manifest.asked import asked_of
from paddock.manifest.capability import Capability, covers, uncovered
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.registry import schema_value
from paddock.plugins.supervision.body import Bodies
from paddock.plugins.supervision.deployment import Deployment, InstanceKey
from paddock.plugins.supervision.flight import OnEvent
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version that serves."""

    manifest: Manifest
    callables: tuple[CallableSpec, ...]
    pid: int | None
    copy: Copy
    unserved: tuple[str, ...] = ()  # declared, and not served
    undeclared: tuple[str, ...] = ()  # served, and not declared


@dataclass(frozen=True, slots=True)
class Parts:
    """What a workshop works with; made by `open_workshop`."""

    supervisor: Supervisor
    gate: Gate
    starter: FolderStarter
    news: WorkshopNews
    bodies: Bodies
    door: Door
    logs: PluginLogs
    publish: Publish
    tasks: TaskGroup
    clock: Clock
    random: Random
    trees: Path


class Workshop:
    """One plugin, from the folder that its author works in."""

    def __init__(self, folder: Path, parts: Parts, audience: Audience) -> None:
        self.folder = folder
        self.serving: Loaded | None = None
        self._parts = parts
        self._audience = audience
        self._numbers = itertools.count(1)
        self._key: InstanceKey | None = None
        self._followed: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        parts.news.on_tools = self._offers

    async def look(self) -> Copy:
        """The folder as it is now, copied and judged. Nothing runs yet; whoever looks removes the copy, or loads it.

        Raises:
            Invalid, OperatorError: it cannot be run; says all that is wrong.
        """
        trees, number = self._parts.trees, next(self._numbers)
        return await asyncio.to_thread(copied, self.folder, trees / "staging", trees, number)

    async def load(self, copy: Copy, granted: Iterable[Capability]) -> Loaded:
        """Start a copy and let it serve. Where that fails the last version goes on serving, and the copy is removed.

        Raises:
            NeedsConsent: it asks for more than was granted; names what.
            PaddockError: it does not run; says why.
        """
        async with self._one_at_a_time:
            try:
                return await self._load(copy, tuple(granted))
            except BaseException:
                copy.remove()
                raise

    async def _load(self, copy: Copy, granted: tuple[Capability, ...]) -> Loaded:
        manifest = copy.manifest
        missing = uncovered(granted, asked_of(manifest))
        if missing:
            raise NeedsConsent(
                f"{manifest.name} also asks for {', '.join(map(str, missing))}",
                hint="grant it, or take it out of the manifest",
                details={"capabilities": [str(one) for one in missing]},
            )
        key, deployment = self._deployment(copy, granted)
        self._follow_log(manifest.name)
        supervisor = self._parts.supervisor
        self._parts.starter.roots[key.digest] = copy.root
        supervisor.deploy(deployment, start=True)
        status = await supervisor.settled(key)
        if status.state is not State.RUNNING:
            await supervisor.disable(key)
            raise Unavailable(
                f"{manifest.name} does not run: {self.at_home(status.reason) or status.state.value}",
                code=status.error_code or None,
                hint=for_its_author(self.at_home(status.hint), manifest.name),
            )
        callables = self._parts.news.tools.get(key, manifest.callables)
        before, self.serving, old = self.serving, Loaded(manifest, callables, status.pid, copy), self._key
        self.serving = replace(self.serving, unserved=status.unavailable_methods, undeclared=status.undeclared_methods)
        self._key = self._parts.news.serving = key
        self._offer(key, manifest, callables, copy.root)
        if before is not None and old is not None:
            self._parts.tasks.start_soon(self._retire, old, before.copy)
        return self.serving

    def _deployment(self, copy: Copy, granted: tuple[Capability, ...]) -> tuple[InstanceKey, Deployment]:
        key = InstanceKey(DEFAULT_TENANT, PluginName(copy.manifest.name), copy.digest)
        held = tuple(asked for asked in copy.manifest.capabilities if any(covers(have, asked) for have in granted))
        return key, Deployment(key, copy.manifest, held)

    def _offer(self, key: InstanceKey, manifest: Manifest, callables: tuple[CallableSpec, ...], root: Path) -> None:
        schemas = {
            spec.name: Schemas(schema_value(spec.input_schema, root), schema_value(spec.output_schema, root))
            for spec in callables
        }
        catalogue = Catalogue([Entry(key, replace(manifest, callables=callables), schemas)])
        self._parts.gate.catalogues = {DEFAULT_TENANT: catalogue}

    async def _retire(self, key: InstanceKey, copy: Copy) -> None:
        """End what no longer serves, once its calls are done."""
        await self._parts.supervisor.disable(key)
        self._parts.starter.roots.pop(key.digest, None)
        self._parts.news.tools.pop(key, None)
        await asyncio.to_thread(copy.remove)

    # --- using it -----------------------------------------------------------------------------------------------------

    async def call(self, name: str, params: Mapping[str, Any], *, on_event: OnEvent | None = None) -> Any:
        """Call it through the gate, as everybody else would: `greet`, or `plugin.greet`.

        Raises:
            PaddockError: whatever stood in the way.
        """
        if self.serving is None:
            raise Conflict(
                "no version of the plugin runs yet", code="dev.nothing_runs", hint="mend what is wrong and save"
            )
        gate, plugin = self._parts.gate, self.serving.manifest.name
        callable_name = "" if name == plugin else name.removeprefix(f"{plugin}.")
        target = gate.catalogue(DEFAULT_TENANT).find_in(plugin, callable_name)
        try:
            return await gate.call(target, params, self._context(), on_event=on_event)
        except PaddockError as error:
            error.hint = for_its_author(error.hint, plugin)
            if error.error_code == "missing_secrets":
                error.hint = how_to_give(error.details["missing"])
            raise

    def _context(self) -> CallContext:
        principal = Principal(AUTHOR, roles=frozenset({OPERATOR}), kind="local")
        return CallContext(principal, RequestId(new_id("req", self._parts.clock, self._parts.random)))

    @asynccontextmanager
    async def trial(self, copy: Copy, granted: Iterable[Capability]) -> AsyncGenerator[Trial, None]:
        """One life of a copy, to be gone through step by step.

        Raises:
            PaddockError: there is none, e.g. the cage could not be built.
        """
        key, deployment = self._deployment(copy, tuple(granted))
        parts = self._parts
        parts.starter.roots[key.digest] = copy.root
        prepared = await parts.starter(deployment)
        trial: AbstractAsyncContextManager[Trial] = on_trial(
            deployment, prepared, parts.bodies, parts.door, publish=parts.publish, clock=parts.clock
        )
        async with trial as life:
            yield life

    def _offers(self, tools: tuple[CallableSpec, ...]) -> None:
        if self.serving is not None and self._key is not None:
            self.serving = replace(self.serving, callables=tools)
            self._offer(self._key, self.serving.manifest, tools, self.serving.copy.root)

    def at_home(self, text: str) -> str:
        """A text in which the files of our copies are those of the author's folder."""
        return re.sub(rf"{re.escape(str(self._parts.trees))}/[^/\s]+-\d+(?=[/\s]|$)", str(self.folder), text)

    def _follow_log(self, name: str) -> None:
        if name not in self._followed:
            self._followed.add(name)
            self._parts.tasks.start_soon(self._tell_log, name)

    async def _tell_log(self, name: str) -> None:
        async for entry in self._parts.logs.follow(name):
            self._audience.logged(self.at_home(str(entry["line"])))
