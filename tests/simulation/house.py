"""A host in the simulation: the gate, ledger, supervisor, queue and store of a daemon, put together as a daemon does.

What it lacks is what no effect passes through: HTTP, the rules' language, cages, and the plugins' own storage.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.simulation.outside import CALL_TIMEOUT, MANIFEST, PLUGIN

from paddock.approvals.deadlines import NearestDeadlines
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, Digest, Tenant
from paddock.core.tasks import scoped_tasks
from paddock.gate.admission.fairness import FairScheduler
from paddock.gate.admission.quotas import NO_LIMITS, DailyQuotas
from paddock.gate.admission.rate_limits import RateLimiter
from paddock.gate.authorization import AllowAll
from paddock.gate.calls.expiry import ApprovalExpiry
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import PendingCallResumer
from paddock.gate.calls.tasks import CallTasks
from paddock.gate.calls.waiting_calls import WaitingCalls
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.gate.gate import Gate
from paddock.host.wiring.background_jobs import open_background_jobs
from paddock.host.wiring.gate import build_approvals, build_gate
from paddock.ledger.write.lifespan import open_ledger
from paddock.manifest.read import read_bytes
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.queue.node import Node
from paddock.runtime.deployment import Deployment, InProcessTarget, InstanceKey, PluginStatus, StartSpec
from paddock.runtime.endpoint import LaunchEndpoint
from paddock.runtime.instance import SupervisorDeps
from paddock.runtime.limits.start_throttle import StartThrottle
from paddock.runtime.protocols.select import select_adapter
from paddock.runtime.supervisor import Supervisor, open_supervisor
from paddock.secrets.vault import Vault
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import Database

NODE = "node_00000000000000000000000001"
_MANIFEST = read_bytes("paddock.yaml", json.dumps(MANIFEST).encode()).single()
_KEY = InstanceKey(DEFAULT_TENANT, PLUGIN, Digest("sha256:simulated"))
_SCHEMAS = {
    spec.name: CallableSchemas(spec.input_schema or {}, spec.output_schema or {}) for spec in _MANIFEST.callables
}


@dataclass(frozen=True, slots=True)
class House:
    """What the simulation asks of a host."""

    gate: Gate
    node: Node
    supervisor: Supervisor


class _Nobody:
    """Hears of the plugin, and lets it be started again where the host gave up: somebody enables it."""

    def __init__(self) -> None:
        self.on_given_up: Callable[[], None] = lambda: None

    def on_log_line(self, key: InstanceKey, line: str, request: str | None) -> None: ...
    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None: ...
    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None: ...
    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None: ...

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        del key, reason
        self.on_given_up()


async def _without_services(asking: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
    raise HostError(f"{asking.plugin} asked for {method} with {params}")


async def _without_tables(tenant: Tenant, *of: Any) -> None:
    raise HostError(f"{tenant} {of} has no tables")


async def _prepared(deployment: Deployment) -> StartSpec:
    return StartSpec(InProcessTarget(deployment.manifest, {}))


@asynccontextmanager
async def open_house(
    database: Database,
    clock: Clock,
    random: Random,
    launch: LaunchEndpoint,
    *,
    gate_of: Callable[..., Gate] = build_gate,
) -> AsyncGenerator[House, None]:
    """The host for as long as the block runs.

    Args:
        database: Where everything is kept.
        clock: The time.
        random: Where ids come from.
        launch: Begins the plugin.
        gate_of: Makes the gate; another one than ours, to see whether it is found out.
    """
    watcher = _Nobody()
    around = SupervisorDeps(
        launch=launch,
        adapter_for=lambda deployment: select_adapter(deployment, answer_request=_without_services, mcp_timeout_s=30.0),
        prepare=_prepared,
        publish_for=lambda tenant: ledger.publisher(tenant),
        observer=watcher,
        clock=clock,
        random=random,
        start_throttle=StartThrottle(),
        is_node_lost=lambda: node.lease_at_risk,
    )
    async with AsyncExitStack() as parts:
        ledger = await parts.enter_async_context(open_ledger(database, clock, random))
        node = Node(NODE, database, clock, daemon=True)
        parts.push_async_callback(node.leave)
        tasks = await parts.enter_async_context(scoped_tasks())
        supervisor = await parts.enter_async_context(open_supervisor(around, call_timeout=CALL_TIMEOUT))
        deadlines = NearestDeadlines()
        approvals = build_approvals(database, clock, random, deadlines=deadlines)
        woken = asyncio.Event()
        gate = gate_of(
            supervisor,
            ledger=ledger,
            database=database,
            authorizer=AllowAll("the simulation lets everybody do everything"),
            approvals=approvals,
            rate_limiter=RateLimiter(NO_LIMITS, DailyQuotas(NO_LIMITS, clock), clock.monotonic),
            clock=clock,
            random=random,
            node=node,
            secrets=Vault(database, WrappingKeys({})),
            catalogues=Catalogues({DEFAULT_TENANT: Catalogue([CatalogueEntry(_KEY, _MANIFEST, _SCHEMAS)])}),
            wake_worker=woken.set,
        )
        gate.fair_scheduler = FairScheduler(clock.monotonic)
        supervisor.deploy(Deployment(_KEY, _MANIFEST, ()), start=False)
        watcher.on_given_up = lambda: supervisor.enable(_KEY)
        running = CallTasks()
        tasks.start_soon(running.run_until_cancelled)
        calls = CallRegistry(gate, running, clock, random)
        waiting = WaitingCalls(gate, calls, approvals, database, clock)
        resumption = PendingCallResumer(gate, calls, waiting, approvals)
        with suppress(StoreUnavailable):
            await node.current_run()
        await resumption.resume_unused()
        tasks.start_soon(resumption.check_forever)
        tasks.start_soon(ApprovalExpiry(approvals, resumption, deadlines, clock).run_forever)
        timed = open_background_jobs(
            database,
            node,
            clock,
            random,
            gate=gate,
            end_call=_without_tables,
            calls=calls,
            plugin_jobs_woken=woken,
        )
        await parts.enter_async_context(timed)
        yield House(gate, node, supervisor)
