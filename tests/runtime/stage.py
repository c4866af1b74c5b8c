"""A stage for plugins: a real supervisor and real cages around small scripts, with every event in view."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any, TypeVar

from msgspec.structs import replace
from tests.fixtures.commands import SOURCE
from tests.fixtures.packages import write_file, write_json

from paddock.cage.plan.compile import HostPaths as CageSurroundings
from paddock.cage.plan.compile import compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.granted_paths import GrantRoots
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.spec import ResourceLimits
from paddock.cage.warden.client import open_warden
from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock, SystemClock, SystemRandom
from paddock.core.errors import NotFound
from paddock.core.events.event import Event
from paddock.core.ids import DEFAULT_TENANT, Digest, OperatorId, PluginName, PrincipalId, RequestId, Tenant, new_id
from paddock.host.plugins.embedded_plugin import build_embedded
from paddock.host.plugins.launch.launch_command import build_launch_command
from paddock.manifest.model import CallableSpec, Manifest, RemoteRuntime
from paddock.manifest.read import read_package
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.runtime.deployment import Deployment, InProcessTarget, InstanceKey, PluginStatus, RemoteTarget, StartSpec
from paddock.runtime.instance import SupervisorDeps
from paddock.runtime.launcher import LaunchCaged, PluginLauncher
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.limits.start_throttle import StartThrottle
from paddock.runtime.protocols.native.adapter import AnswerRequest
from paddock.runtime.protocols.select import select_adapter
from paddock.runtime.supervisor import Supervisor, open_supervisor

E = TypeVar("E", bound=Event)

PATIENCE = 60.0  # real seconds: only a broken test waits this long

# What a script has at hand. `hello` is a whole, correct handshake; `serve` answers until the pipe closes.
PRELUDE = """
import json, os, signal, sys, time
def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def send(message):
    sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})
def refuse(request, code, message):
    send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})
def introduction(**changed):
    about = {"name": NAME, "version": "1.0.0", "api_version": 1, "methods": METHODS, "notifications": [],
             "capabilities_used": []}
    about.update(changed)
    return about
def hello(**changed):
    answer(read(), introduction(**changed))
    read()                                  # initialized
    answer(read(), {"status": "ok"})        # config.update
def serve(**handlers):
    while True:
        request = read()
        method = request["method"]
        handler = handlers.get(method.replace(".", "_"))
        if method == "shutdown":
            sys.exit(0)
        elif handler:
            result = handler(request)
            if "id" in request and result is not None:
                answer(request, result)
        elif method == "ping":
            answer(request, {"status": "ok"})
        elif "id" in request:
            refuse(request, -32601, "no such method")
"""


class Audience:
    """Who is told what happens: events, log lines, notifications, and plugins given up."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []
        self.lost: list[InstanceKey] = []
        self.definitions: dict[str, tuple[Definition, ...]] = {}
        self._news = asyncio.Event()

    def publisher(self, tenant: Tenant) -> Audience:
        del tenant
        return self

    def publish(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    def on_log_line(self, key: InstanceKey, line: str, request: str | None) -> None:
        del key, request
        self.lines.append(line)
        self._news.set()

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        del key
        self.notifications.append((method, params))
        self._news.set()

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        self.definitions[deployment.name] = definitions
        self._news.set()

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        del key, status
        self._news.set()

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        del reason
        self.lost.append(key)
        self._news.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, seen: Callable[[], Any]) -> Any:
        """What `seen` gives, as soon as it gives something."""
        while not (found := seen()):
            self._news.clear()
            await patiently(self._news.wait())
        return found

    async def event(self, kind: type[E], count: int = 1) -> E:
        """The event of this kind, or the latest of so many, once it was published."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]


async def closed_door(asking: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
    """The way back into a host that offers plugins no services."""
    del params
    raise NotFound(f"this host serves no {method} to {asking.plugin}", code="method_not_found")


async def patiently(work: Any) -> Any:
    """The work's result, unless it takes longer than any sound run could."""
    pace = getattr(asyncio.get_running_loop(), "pace", 1.0)
    async with asyncio.timeout(PATIENCE * pace):
        return await work


class LoopClock(SystemClock):
    """A clock that keeps the pace of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def monotonic(self) -> float:
        return self._loop.time()

    def now(self) -> datetime:
        return super().now()


@dataclass
class Actor:
    """One plugin on the stage."""

    stage: Stage
    key: InstanceKey
    manifest: Manifest
    root: Path

    @property
    def status(self) -> PluginStatus:
        status = self.stage.supervisor.status(self.key)
        assert status is not None
        return status

    async def settled(self) -> PluginStatus:
        return await patiently(self.stage.supervisor.wait_settled(self.key))

    async def until(self, state: PluginState) -> PluginStatus:
        """The status once it is in this state."""
        supervisor = self.stage.supervisor
        while self.status.state is not state:
            await patiently(supervisor.wait_state_change(self.key))
        return self.status

    def spec(self, name: str) -> CallableSpec:
        return next(spec for spec in self.manifest.callables if spec.name == name)

    async def call(self, name: str, context: CallContext | None = None, /, **params: Any) -> Any:
        return await patiently(
            self.stage.supervisor.call(self.key, self.spec(name), params, context or self.stage.context())
        )


@dataclass
class Stage:
    """A supervisor with nothing on it yet."""

    folder: Path
    supervisor: Supervisor
    audience: Audience
    limits: ResourceLimits
    places: GrantRoots
    configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    refusals: dict[str, Exception] = field(default_factory=dict)

    def actor(
        self, script: str, name: str = "actor", *, start: bool = True, lazy: bool = False, **fields: Any
    ) -> Actor:
        """Deploy a plugin whose program is this script; `fields` join its manifest. Its method is `do.it`."""
        root = self.folder / f"plugin-{name}"
        methods = fields.get("methods", [{"name": "do.it", "effects": ["read_only"]}])
        names = [method["name"] for method in methods]
        manifest = {
            "paddock": 1,
            "name": name,
            "version": "1.0.0",
            "description": "An actor",
            "runtime": {"command": ["python3", "./main.py"]},
            "capabilities": [],
            "methods": methods,
            "start": "lazy" if lazy else "eager",
        } | fields
        write_json(root / "paddock.yaml", manifest)
        write_file(root / "main.py", f"NAME, METHODS = {name!r}, {names!r}\n{PRELUDE}\n{script}")
        return self.deploy(root, start=start)

    def deploy(self, root: Path, *, start: bool = True, digest: str = "sha256:1") -> Actor:
        """Deploy the plugin of a folder."""
        root.chmod(0o755)
        manifest = read_package(root).single()
        key = InstanceKey(DEFAULT_TENANT, PluginName(manifest.name), Digest(digest))
        actor = Actor(self, key, manifest, root)
        self.roots[key] = root
        self.supervisor.deploy(Deployment(key, manifest, manifest.capabilities), start=start)
        return actor

    def embed(self, manifest: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Actor:
        """Deploy functions of this process."""
        deployment = build_embedded(manifest, functions).deployment
        self.supervisor.deploy(deployment, start=True)
        return Actor(self, deployment.key, deployment.manifest, self.folder)

    roots: dict[InstanceKey, Path] = field(default_factory=dict)

    _requests = itertools.count(1)

    def context(self, **changed: Any) -> CallContext:
        made = CallContext(
            principal=Principal(PrincipalId("local:tester")),
            request=RequestId(f"req_{next(self._requests)}"),
            operator=OperatorId("tester"),
        )
        return replace(made, **changed)

    async def prepare(self, deployment: Deployment) -> StartSpec:
        refusal = self.refusals.get(deployment.name)
        if refusal is not None:
            raise refusal
        remote = deployment.manifest.runtime
        if isinstance(remote, RemoteRuntime):
            return StartSpec(RemoteTarget(remote.url, remote.headers, remote.transport))
        if deployment.functions is not None:
            return StartSpec(InProcessTarget(deployment.manifest, deployment.functions))
        root = str(self.roots[deployment.key])
        command = build_launch_command(deployment.manifest, root, deployment.capabilities, None, DiskFilesystem())
        cage = compile_cage(
            cage_id=new_id("cage", SystemClock(), SystemRandom()),
            manifest=deployment.manifest,
            root=root,
            capabilities=deployment.capabilities,
            environment={**spawn_environment(deployment.manifest, root, "info"), **command.variables},
            command=command.argv,
            host_paths=CageSurroundings(python=sys.executable, sdk=str(SOURCE)),
            filesystem=DiskFilesystem(),
            roots=self.places,
            limits=self.limits,
        )
        return StartSpec(cage, self.configs.get(deployment.name, {}))


@asynccontextmanager
async def open_stage(
    folder: Path,
    *,
    answer_request: AnswerRequest | None = None,
    launch_caged: LaunchCaged | None = None,
    clock: Clock | None = None,
    idle_stop: float = 600.0,
    lasting: bool = True,
    tls: SSLContext | None = None,
) -> AsyncGenerator[Stage, None]:
    """A stage with real cages for as long as the block runs."""
    audience = Audience()
    stage: Stage | None = None

    async def prepare(deployment: Deployment) -> StartSpec:
        assert stage is not None
        return await stage.prepare(deployment)

    async with open_warden() as warden:
        clock = clock or LoopClock()
        around = SupervisorDeps(
            launch=PluginLauncher(launch_caged or warden.launch, clock, connect_timeout_s=30.0, tls=tls).launch,
            adapter_for=partial(select_adapter, answer_request=answer_request or closed_door, mcp_timeout_s=30.0),
            prepare=prepare,
            publish_for=audience.publisher,
            observer=audience,
            clock=clock,
            random=SystemRandom(),
            start_throttle=StartThrottle(),
            long_lived=lasting,
            publish_calls=True,
        )
        async with open_supervisor(around, idle_stop=idle_stop) as supervisor:
            stage = Stage(folder, supervisor, audience, ResourceLimits(), GrantRoots())
            yield stage
