"""A dev host: runs one plugin from its author's folder. A new snapshot takes over once it runs, not before.

Everything around the process survives its replacement: databases, key-value data, the cache, the log, settings.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, NeedsConsent, PaddockError, Unavailable
from paddock.core.events.event import EventSink
from paddock.core.ids import DEFAULT_TENANT, PluginName, RequestId, new_id
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.gate.gate import Gate
from paddock.gate.invocation import CallRequest
from paddock.host.dev.author import AUTHOR_ID, author_hint, give_secrets_action
from paddock.host.dev.snapshot import SnapshotLaunchPreparer, SourceSnapshot, snapshot_folder
from paddock.host.dev.supervisor_events import DevEventListener, DevSupervisorEvents
from paddock.host.learn.trial_run import TrialRun, open_trial_run
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.manifest.capability import Capability, covers, missing_capabilities
from paddock.manifest.model import CallableSpec, Manifest
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.rules.readiness import find_disallowed_hosts
from paddock.plugins.manage.enable import domain_not_allowed_error
from paddock.plugins.store.lookup import load_schema
from paddock.runtime.calls import OnEvent
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.endpoint import LaunchEndpoint
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.protocols.native.adapter import AnswerRequest
from paddock.runtime.supervisor import Supervisor


class LoadedPlugin(Struct, frozen=True):
    """A loaded snapshot of the plugin that serves calls."""

    manifest: Manifest
    callables: tuple[CallableSpec, ...]
    pid: int | None
    copy: SourceSnapshot
    unserved: tuple[str, ...] = ()  # declared but not served
    undeclared: tuple[str, ...] = ()  # served but not declared


class DevHostParts(Struct, frozen=True):
    """The parts of a dev host; built by `open_dev_host`."""

    supervisor: Supervisor
    gate: Gate
    preparer: SnapshotLaunchPreparer
    supervisor_events: DevSupervisorEvents
    launch: LaunchEndpoint
    answer_request: AnswerRequest
    mcp_timeout_s: float
    logs: PluginLogs
    publish: EventSink
    tasks: TaskGroup
    clock: Clock
    random: Random
    trees: Path


class DevHost:
    """Runs one plugin from the folder that its author works in."""

    def __init__(self, folder: Path, parts: DevHostParts, listener: DevEventListener) -> None:
        self.folder = folder
        self.serving: LoadedPlugin | None = None
        self._parts = parts
        self._listener = listener
        self._numbers = itertools.count(1)
        self._key: InstanceKey | None = None
        self._followed_logs: set[str] = set()
        self._load_lock = asyncio.Lock()

    async def take_snapshot(self) -> SourceSnapshot:
        """Copy the folder as it is now and validate it. Nothing runs yet; the caller loads or removes the snapshot.

        Raises:
            Invalid, OperatorError: it cannot be run; carries every mistake.
        """
        trees, number = self._parts.trees, next(self._numbers)
        return await asyncio.to_thread(snapshot_folder, self.folder, trees / "staging", trees, number)

    async def load(self, snapshot: SourceSnapshot, granted: Iterable[Capability]) -> LoadedPlugin:
        """Start a snapshot and let it serve. If that fails, the last version keeps serving and the snapshot is removed.

        Raises:
            NeedsConsent: it requests more than was granted; names the capabilities.
            PaddockError: it does not run; says why.
        """
        async with self._load_lock:
            try:
                return await self._load(snapshot, tuple(granted))
            except BaseException:
                snapshot.remove()
                raise

    async def _load(self, snapshot: SourceSnapshot, granted: tuple[Capability, ...]) -> LoadedPlugin:
        manifest = snapshot.manifest
        missing = missing_capabilities(granted, requested_capabilities(manifest))
        if missing:
            raise NeedsConsent(
                f"{manifest.name} also asks for {', '.join(map(str, missing))}",
                hint="allow it in this session, or take it out of the manifest",
                details={"capabilities": [str(capability) for capability in missing]},
            )
        allowed_domains = self._parts.preparer.settings.plugins.allowed_domains
        if disallowed := find_disallowed_hosts(manifest, allowed_domains):
            raise domain_not_allowed_error(manifest.name, disallowed)
        key, deployment = self._deployment(snapshot, granted)
        self._follow_log(manifest.name)
        supervisor = self._parts.supervisor
        self._parts.preparer.roots[key.digest] = snapshot.root
        supervisor.deploy(deployment, start=True)
        status = await supervisor.wait_settled(key)
        if status.state is not PluginState.RUNNING:
            await supervisor.disable(key)
            raise Unavailable(
                f"{manifest.name} does not run: {self.with_author_paths(status.reason) or status.state.value}",
                code=status.error_code or None,
                hint=author_hint(self.with_author_paths(status.hint), status.action),
            )
        callables = self._parts.supervisor_events.tools.get(key, manifest.callables)
        previous, self.serving, previous_key = (
            self.serving,
            LoadedPlugin(manifest, callables, status.pid, snapshot),
            self._key,
        )
        self.serving = replace(self.serving, unserved=status.unavailable_methods, undeclared=status.undeclared_methods)
        self._key = key
        self._parts.supervisor_events.serve(key)
        self._update_catalogue(key, manifest, callables, snapshot.root)
        if previous is not None and previous_key is not None:
            self._parts.tasks.start_soon(self._retire, previous_key, previous.copy)
        return self.serving

    def _deployment(self, snapshot: SourceSnapshot, granted: tuple[Capability, ...]) -> tuple[InstanceKey, Deployment]:
        key = InstanceKey(DEFAULT_TENANT, PluginName(snapshot.manifest.name), snapshot.digest)
        allowed = tuple(
            wanted for wanted in snapshot.manifest.capabilities if any(covers(have, wanted) for have in granted)
        )
        return key, Deployment(key, snapshot.manifest, allowed)

    def _update_catalogue(
        self, key: InstanceKey, manifest: Manifest, callables: tuple[CallableSpec, ...], root: Path
    ) -> None:
        schemas = {
            spec.name: CallableSchemas(load_schema(spec.input_schema, root), load_schema(spec.output_schema, root))
            for spec in callables
        }
        catalogue = Catalogue([CatalogueEntry(key, replace(manifest, callables=callables), schemas)])
        self._parts.gate.catalogues.replace({DEFAULT_TENANT: catalogue})

    async def _retire(self, key: InstanceKey, snapshot: SourceSnapshot) -> None:
        """Stop a version that no longer serves, once its calls are done."""
        await self._parts.supervisor.disable(key)
        self._parts.preparer.roots.pop(key.digest, None)
        self._parts.supervisor_events.tools.pop(key, None)
        await asyncio.to_thread(snapshot.remove)

    # --- using it -----------------------------------------------------------------------------------------------------

    async def call(self, name: str, params: Mapping[str, Any], *, on_event: OnEvent | None = None) -> Any:
        """Call it through the gate, as any caller would: `greet`, or `plugin.greet`.

        Raises:
            PaddockError: the call was denied or failed.
        """
        if self.serving is None:
            raise Conflict(
                "no version of the plugin runs yet", code="dev.nothing_runs", hint="fix the problem and save"
            )
        gate, plugin = self._parts.gate, self.serving.manifest.name
        callable_name = "" if name == plugin else name.removeprefix(f"{plugin}.")
        target = gate.catalogue(DEFAULT_TENANT).find_callable(plugin, callable_name)
        try:
            return await gate.call(CallRequest(target, params, self._context(), on_event=on_event))
        except PaddockError as error:
            if error.error_code == "missing_secrets":
                action = give_secrets_action(self.folder, error.details["missing"])
                raise error.with_remedy(hint="give it the secrets when it starts", action=action) from error
            raise error.with_remedy(hint=author_hint(error.hint, error.action)) from error

    def _context(self) -> CallContext:
        principal = Principal(AUTHOR_ID, roles=frozenset({OPERATOR}), kind="local")
        return CallContext(principal, RequestId(new_id("req", self._parts.clock, self._parts.random)))

    @asynccontextmanager
    async def trial_run(
        self, snapshot: SourceSnapshot, granted: Iterable[Capability]
    ) -> AsyncGenerator[TrialRun, None]:
        """Run one process of a snapshot for a trial, driven step by step.

        Raises:
            PaddockError: it cannot be started, e.g. the cage could not be built.
        """
        key, deployment = self._deployment(snapshot, tuple(granted))
        parts = self._parts
        parts.preparer.roots[key.digest] = snapshot.root
        start_spec = await parts.preparer(deployment)
        trial: AbstractAsyncContextManager[TrialRun] = open_trial_run(
            deployment,
            start_spec,
            parts.launch,
            parts.answer_request,
            mcp_timeout_s=parts.mcp_timeout_s,
            publish=parts.publish,
            clock=parts.clock,
            reword=lambda hint, action: (author_hint(hint, action), None),
        )
        async with trial as run:
            yield run

    def update_tools(self, tools: tuple[CallableSpec, ...]) -> None:
        """Serve other tools: the server of the serving version lists them now."""
        if self.serving is not None and self._key is not None:
            self.serving = replace(self.serving, callables=tools)
            self._update_catalogue(self._key, self.serving.manifest, tools, self.serving.copy.root)

    def with_author_paths(self, text: str) -> str:
        """Replace paths of our snapshots in a text by those of the author's folder."""
        return re.sub(rf"{re.escape(str(self._parts.trees))}/[^/\s]+-\d+(?=[/\s]|$)", str(self.folder), text)

    def _follow_log(self, name: str) -> None:
        if name not in self._followed_logs:
            self._followed_logs.add(name)
            self._parts.tasks.start_soon(self._forward_log, name)

    async def _forward_log(self, name: str) -> None:
        async for entry in self._parts.logs.follow(name):
            self._listener.logged(self.with_author_paths(str(entry["line"])))
