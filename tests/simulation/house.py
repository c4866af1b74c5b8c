"""A host in the simulation: the gate, ledger, supervisor, queue and store of a daemon, put together as a daemon does.

What it lacks is what no effect passes through: HTTP, the rules' language, cages, and the plugins' own storage.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.simulation.outside import CALL_TIMEOUT, MANIFEST, PLUGIN

from paddock.capabilities.asking import Asking
from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, Digest, Tenant
from paddock.gate.call_tasks import CallTasks
from paddock.gate.calls import Calls
from paddock.gate.catalogue import Catalogue, Entry, Schemas
from paddock.gate.deciding import TheirOwn
from paddock.gate.gate import Gate
from paddock.gate.limits import Limits
from paddock.gate.quotas import Quotas
from paddock.gate.rates import NO_LIMIT
from paddock.gate.resume import Resumption
from paddock.gate.turns import Turns
from paddock.host.gating import BesideTheGate, approvals_on, gate_to
from paddock.host.timed_work import open_timed_work
from paddock.ledger.opening import open_ledger
from paddock.manifest.read import read_bytes
from paddock.plugins.runtimes.choosing import wire_for
from paddock.plugins.supervision.body import Bodies
from paddock.plugins.supervision.deployment import Deployment, Functions, InstanceKey, Prepared, Status
from paddock.plugins.supervision.keeper import Surroundings
from paddock.plugins.supervision.owned_tasks import owned_tasks
from paddock.plugins.supervision.start_gate import StartGate
from paddock.plugins.supervision.supervisor import Supervisor, open_supervisor
from paddock.plugins.supervision.wire import Definition
from paddock.queue.node import Node
from paddock.store.database import Database

NODE = "node_00000000000000000000000001"
_MANIFEST = read_bytes("paddock.yaml", json.dumps(MANIFEST).encode()).single()
_KEY = InstanceKey(DEFAULT_TENANT, PLUGIN, Digest("sha256:simulated"))
_SCHEMAS = {spec.name: Schemas(spec.input_schema or {}, spec.output_schema or {}) for spec in _MANIFEST.callables}


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

    def logged(self, key: InstanceKey, line: str) -> None: ...
    def notified(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None: ...
    async def met(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None: ...
    def moved(self, key: InstanceKey, status: Status) -> None: ...

    def given_up(self, key: InstanceKey, reason: str) -> None:
        del key, reason
        self.on_given_up()


class _Shut:
    """The plugin asks the host for nothing."""

    async def answer(self, asking: Asking, method: str, params: Mapping[str, Any]) -> Any:
        raise HostError(f"{asking.plugin} asked for {method} with {params}")


class _NoSecrets:
    """It needs none."""

    async def require(self, *of: Any, **more: Any) -> None: ...


class _NoNotes:
    """It has no tables that would tell of a call."""

    async def end_call(self, tenant: Tenant, *of: Any, **more: Any) -> None:
        raise HostError(f"{tenant} {of} {more} has no tables")


async def _prepared(deployment: Deployment) -> Prepared:
    return Prepared(Functions(deployment.manifest, {}))


@asynccontextmanager
async def open_house(
    database: Database, clock: Clock, random: Random, bodies: Bodies, *, gate_of: Callable[..., Gate] = gate_to
) -> AsyncGenerator[House, None]:
    """The host for as long as the block runs.

    Args:
        database: Where everything is kept.
        clock: The time.
        random: Where ids come from.
        bodies: Begins the plugin.
        gate_of: Makes the gate; another one than ours, to see whether it is found out.
    """
    watcher = _Nobody()
    around = Surroundings(
        bodies=bodies,
        wire_for=lambda deployment: wire_for(deployment, door=_Shut()),
        prepare=_prepared,
        publish_for=lambda tenant: BesideTheGate(ledger.publisher(tenant)),
        watcher=watcher,
        clock=clock,
        random=random,
        starts=StartGate(),
    )
    async with AsyncExitStack() as parts:
        ledger = await parts.enter_async_context(open_ledger(database, clock, random))
        node = Node(NODE, database, clock, lasting=True)
        parts.push_async_callback(node.leave)
        tasks = await parts.enter_async_context(owned_tasks())
        supervisor = await parts.enter_async_context(open_supervisor(around, call_timeout=CALL_TIMEOUT))
        approvals = approvals_on(database, clock, random)
        gate = gate_of(
            supervisor,
            ledger=ledger,
            database=database,
            decides=TheirOwn("the simulation lets everybody do everything"),
            approvals=approvals,
            limits=Limits(NO_LIMIT, Quotas(NO_LIMIT, clock), clock.monotonic),
            clock=clock,
            random=random,
            node=node,
            secrets=_NoSecrets(),
        )
        gate.turns = Turns(clock.monotonic)
        gate.catalogues = {DEFAULT_TENANT: Catalogue([Entry(_KEY, _MANIFEST, _SCHEMAS)])}
        supervisor.deploy(Deployment(_KEY, _MANIFEST, ()), start=False)
        watcher.on_given_up = lambda: supervisor.enable(_KEY)
        running = CallTasks()
        tasks.start_soon(running.keep)
        calls = Calls(gate, running, clock, random)
        resumption = Resumption(gate, calls, approvals, database, clock)
        with suppress(StoreUnavailable):
            await node.here()
        await resumption.come_back()
        tasks.start_soon(resumption.expire_forever)
        timed = open_timed_work(
            database,
            node,
            clock,
            random,
            gate=gate,
            approvals=approvals,
            resumption=resumption,
            notes=_NoNotes(),
            calls=calls,
        )
        await parts.enter_async_context(timed)
        yield House(gate, node, supervisor)
