"""Small plugins for measurements, and a supervisor with real cages to run them in."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

import json  # noqa: E402

from paddock.cage.plan.compile import HostPaths as CageSurroundings  # noqa: E402
from paddock.cage.plan.compile import compile_cage  # noqa: E402
from paddock.cage.plan.environment import spawn_environment  # noqa: E402
from paddock.cage.plan.host_filesystem import DiskFilesystem  # noqa: E402
from paddock.cage.warden.client import open_warden  # noqa: E402
from paddock.capabilities.request import CapabilityRequest  # noqa: E402
from paddock.core.call import CallContext, Principal  # noqa: E402
from paddock.core.clock import SystemClock, SystemRandom  # noqa: E402
from paddock.core.errors import NotFound  # noqa: E402
from paddock.core.events.event import Event, EventSink  # noqa: E402
from paddock.core.ids import DEFAULT_TENANT, Digest, PluginName, PrincipalId, RequestId, new_id  # noqa: E402
from paddock.manifest.model import CallableSpec  # noqa: E402
from paddock.manifest.read import read_package  # noqa: E402
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus, StartSpec  # noqa: E402
from paddock.runtime.instance import SupervisorDeps  # noqa: E402
from paddock.runtime.launcher import PluginLauncher  # noqa: E402
from paddock.runtime.limits.start_throttle import StartThrottle  # noqa: E402
from paddock.runtime.protocol_adapter import Definition  # noqa: E402
from paddock.runtime.protocols.select import select_adapter  # noqa: E402
from paddock.runtime.supervisor import Supervisor, open_supervisor  # noqa: E402


def write_plugin(
    folder: Path, name: str, program: str, methods: list[str], *, capabilities: tuple[str, ...] = (), **fields: Any
) -> Path:
    """A native plugin whose program is one Python file."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "paddock": 1,
        "name": name,
        "version": "1.0.0",
        "description": "For a measurement",
        "runtime": {"command": ["python3", "./main.py"]},
        "capabilities": list(capabilities),
        "methods": [{"name": method, "effects": ["read_only"]} for method in methods],
    } | fields
    (folder / "paddock.yaml").write_text(json.dumps(manifest), encoding="utf-8")
    (folder / "main.py").write_text(program, encoding="utf-8")
    return folder


@dataclass
class Counted:
    """A place for events that only counts them."""

    events: int = 0

    def publish(self, event: Event) -> None:
        del event
        self.events += 1


def count_events() -> Counted:
    return Counted()


class Quiet:
    """Nobody follows what the plugins say."""

    def on_log_line(self, key: InstanceKey, line: str, request: str | None) -> None:
        pass

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        pass

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        pass

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        pass

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        pass


async def no_door(asking: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
    """The plugins here ask for nothing."""
    del params
    raise NotFound(f"nobody serves {asking.plugin} {method}", code="method_not_found")


@dataclass(frozen=True, slots=True)
class Actor:
    """One running plugin."""

    supervisor: Supervisor
    deployment: Deployment

    @property
    def status(self) -> PluginStatus:
        status = self.supervisor.status(self.deployment.key)
        assert status is not None
        return status

    def spec(self, name: str) -> CallableSpec:
        return next(spec for spec in self.deployment.manifest.callables if spec.name == name)

    async def call(self, name: str, params: Mapping[str, Any]) -> Any:
        return await self.supervisor.call(self.deployment.key, self.spec(name), params, CONTEXT)


CONTEXT = CallContext(principal=Principal(PrincipalId("bench")), request=RequestId("req_bench"))


@dataclass(slots=True)
class BenchStage:
    """A supervisor with real cages."""

    supervisor: Supervisor
    roots: dict[InstanceKey, Path]

    def deploy(self, root: Path, *, start: bool = True) -> Actor:
        manifest = read_package(root).single()
        key = InstanceKey(DEFAULT_TENANT, PluginName(manifest.name), Digest("sha256:bench"))
        self.roots[key] = root
        deployment = Deployment(key, manifest, manifest.capabilities)
        self.supervisor.deploy(deployment, start=start)
        return Actor(self.supervisor, deployment)

    async def start(self, root: Path) -> Actor:
        """Deploy it and wait until it runs."""
        actor = self.deploy(root)
        status = await self.supervisor.wait_settled(actor.deployment.key)
        assert status.state == "running", f"{status.key.plugin}: {status.reason}"
        return actor


@asynccontextmanager
async def on_stage(publish: EventSink) -> AsyncGenerator[BenchStage, None]:
    """The stage for as long as the block runs."""
    roots: dict[InstanceKey, Path] = {}

    async def prepare(deployment: Deployment) -> StartSpec:
        root = str(roots[deployment.key])
        return StartSpec(
            compile_cage(
                cage_id=new_id("cage", SystemClock(), SystemRandom()),
                manifest=deployment.manifest,
                root=root,
                capabilities=deployment.capabilities,
                environment=spawn_environment(deployment.manifest, root, "warning"),
                host_paths=CageSurroundings(python=sys.executable, sdk=str(SOURCE)),
                filesystem=DiskFilesystem(),
            )
        )

    async with open_warden() as warden:
        around = SupervisorDeps(
            launch=PluginLauncher(warden.launch, SystemClock(), connect_timeout_s=30.0).launch,
            adapter_for=partial(select_adapter, answer_request=no_door, mcp_timeout_s=30.0),
            prepare=prepare,
            publish_for=lambda _tenant: publish,
            observer=Quiet(),
            clock=SystemClock(),
            random=SystemRandom(),
            start_throttle=StartThrottle(),
        )
        async with open_supervisor(around) as supervisor:
            yield BenchStage(supervisor, roots)
