"""One run of a host in a history: what goes wrong in it, who asks for what meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import apsw
import orjson
from tests.simulation.disk import Disk
from tests.simulation.house import House, open_house
from tests.simulation.judge import Told, in_doubt, waits_for_a_person
from tests.simulation.outside import PLUGIN, Act, Outside, Programs
from tests.simulation.seeded_loop import SeededClock, SeededLoop, SeededRandom, Stuck
from tests.simulation.store import SimulatedStore, open_direct_at

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, RequestId
from paddock.gate.idempotency.manual_resolution import resolve
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.invocation import CallRequest
from paddock.ledger.write.append import TransactionLedger
from paddock.store.sqlite import SqliteDirect
from paddock.store.transaction import Transaction

if TYPE_CHECKING:
    from tests.simulation.world import Caller, World

ANN = Principal(PrincipalId("local:ann"), roles=frozenset({OPERATOR}), kind="local", interactive=True)
DATABASE = "paddock.db"
A_DAY = 86_400.0
LONGEST = 3_000.0  # seconds in which everybody has got some answer
LAST_TRIES = 20  # in a life in which nothing goes wrong any more


@dataclass(slots=True)
class _Faults:
    """What goes wrong in one life."""

    badly: float = 0.0  # how likely the plugin serves a call badly
    impatient: float = 0.0  # how likely a caller goes away

    @classmethod
    def drawn(cls, chances: Random) -> _Faults:
        return cls(chances.choice((0.0, 0.1, 0.5)), chances.choice((0.0, 0.1, 0.5)))


class Life:
    """One run of the host, from its start until it is ended, killed, or its machine loses power.

    Args:
        world: What was before it, and what is after.
        number: Which it is.
        calm: Whether nothing goes wrong any more: then everybody gets what they want.
    """

    def __init__(self, world: World, number: int, *, calm: bool) -> None:
        self.world = world
        self.calm = calm
        self.dead = False
        self.power = False  # whether its end is that of the whole machine
        self.number = number
        self.chances = self._stream("life")
        self.loop = SeededLoop(self._stream("loop"), world.time)
        # What is due by the calendar waits for the calendar; so at last it shows the latest day that it ever showed.
        self.clock = SeededClock(self.loop, world.latest if calm else world.moved)
        self.disk = Disk(self._stream("disk"), world.files)
        self.faults = _Faults() if calm else _Faults.drawn(self.chances)
        outside = _Reached(self)
        self.programs = Programs(outside, self._stream("plugin"), self.faults.badly, self.note)
        self.direct = open_direct_at(world.disks.path(self.disk, DATABASE), synchronous=world.rigging.synchronous)

    def _stream(self, name: str) -> Random:
        """Chances of its own for each part, so that what one draws does not change what others do."""
        return Random(f"{self.world.seed}/{self.number}/{name}")

    def note(self, what: str) -> None:
        if not self.dead:
            self.world.trace.append(f"{self.number} {self.loop.steps} {self.loop.time():.6f} {what}")

    def object(self, what: str) -> None:
        if not self.dead:
            self.note(f"BROKEN: {what}")
            self.world.judge.object(what)
            self.loop.stop()

    # --- from outside -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live, and leave behind what is left."""
        loop = self.loop
        loop.set_exception_handler(self._stray)
        self.note(f"starts {'calmly' if self.calm else self.faults}")
        if not self.calm:
            self._plan()
        main = loop.create_task(self._live(), name="life")
        main.add_done_callback(lambda _: loop.stop())
        try:
            try:
                loop.run_forever()
            except Stuck as stuck:
                self.object(f"stuck: {stuck}")
            if main.done() and not main.cancelled() and main.exception() is not None:
                self.object(f"the host failed: {main.exception()!r}")
            self._leave(killed=not main.done())
        finally:
            self.dead = True
            self._bury(main)

    def _leave(self, *, killed: bool) -> None:
        world = self.world
        if killed and self.power:
            self.disk.cut_power()
        self.disk.kill()  # harmless where the power was cut
        if killed:
            self.note("is gone")
            for program in self.programs.all:
                for job in program.undone():
                    if world.chances.random() < 0.5:  # what was on its way is not called back
                        program.do(job)
        world.files = self.disk.remains or {}
        world.time, world.moved = self.loop.time(), self.clock.moved
        world.latest = max(world.latest, world.moved)

    def _bury(self, main: asyncio.Task[None]) -> None:
        """Let what is left of it end, where nobody sees it any more."""
        loop = self.loop
        loop.stop_at = None
        self.disk.full, self.disk.failing = False, 0.0
        main.cancel()
        with suppress(asyncio.CancelledError, Exception):
            loop.run_until_complete(main)
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        with suppress(Exception):
            loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        with suppress(Exception):
            self.direct.close()

    def _stray(self, loop: Any, context: dict[str, Any]) -> None:
        del loop
        error = context.get("exception")
        self.object(f"{context.get('message')}: {error!r}")

    def _plan(self) -> None:
        """Draw what goes wrong besides."""
        chances, loop, disk = self.chances, self.loop, self.disk
        end = chances.choice(("killed", "power", "power in a write", "killed", "ends by itself"))
        steps = int(10 ** chances.uniform(1.0, 4.0))
        if end == "power in a write":
            disk.cut_at = max(1, steps // 8)
            disk.on_cut = loop.stop
        elif end != "ends by itself":
            loop.stop_at = steps
        self.power = end == "power"
        for what, likely in (("full", 0.3), ("failing", 0.3), ("day", 0.3), ("plugin", 0.3)):
            if chances.random() < likely:
                at = chances.uniform(0.0, 3.0)
                loop.call_later(at, self._fault, what, chances.choice((0.01, 0.5, 3.0)))
        self.note(f"plan: {end} {steps}")

    def _fault(self, what: str, seconds: float) -> None:
        self.note(f"fault: {what} for {seconds:g} s")
        match what:
            case "full":
                self.disk.full = True
                self.loop.call_later(seconds, self._mend, what)
            case "failing":
                self.disk.failing = self.chances.choice((0.05, 0.3, 1.0))
                self.loop.call_later(seconds, self._mend, what)
            case "day":
                self.clock.moved += self.chances.choice((A_DAY, -A_DAY))
            case _:
                for program in self.programs.all:
                    program.die(-9)

    def _mend(self, what: str) -> None:
        self.note(f"mended: {what}")
        if what == "full":
            self.disk.full = False
        else:
            self.disk.failing = 0.0

    # --- from inside --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        store = SimulatedStore(self.direct, self.loop, self._committed)
        random = SeededRandom(self._stream("ids"))
        try:
            async with open_house(
                store, self.clock, random, self.programs.launch, gate_of=self.world.rigging.gate_of
            ) as house:
                await self._recovered(house)
                async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as everybody:
                    looking = everybody.create_task(self._look_into_doubts(store))
                    asking = [
                        everybody.create_task(self._ask(house, caller))
                        for caller in self.world.callers
                        if not caller.answered
                    ]
                    if asking:
                        await asyncio.wait(asking)
                    await asyncio.sleep(self._stream("end").uniform(0.0, 20.0))
                    if self.calm:
                        await self._all_found_out(store)
                    looking.cancel()
                self.note("ends")
        except TimeoutError:
            self.object(f"somebody waits for more than {LONGEST:g} s")
        finally:
            if self.calm:
                self._judged(lambda: self.world.judge.over(self.direct))
            with suppress(apsw.Error):  # from its last checkpoint, which nobody needs
                await store.aclose()

    async def _recovered(self, house: House) -> None:
        with suppress(StoreUnavailable):
            here = await house.node.current_run()
            self._judged(lambda: self.world.judge.recovered(self.direct, here))

    async def _ask(self, house: House, caller: Caller) -> None:
        chances = Random(f"{self.world.seed}/{self.number}/caller {caller.number}")
        await asyncio.sleep(chances.choice((0.0, 0.0, chances.uniform(0, 3))))
        for _ in range(LAST_TRIES if self.calm else chances.randint(1, 3)):
            patience = None
            if chances.random() < self.faults.impatient:
                patience = chances.choice((0.0, chances.uniform(0.0, 0.1), chances.uniform(0.0, 6.0)))
            await self._try(house, caller, patience)
            if caller.answered:
                return
            await asyncio.sleep(20.0 if self.calm else chances.choice((0.0, 1.0, 10.0)))
        if self.calm:
            self.object(f"{caller} gets no answer to {caller.tool} {caller.key}")

    async def _try(self, house: House, caller: Caller, patience: float | None) -> None:
        caller.tries += 1
        request = RequestId(f"req_{caller.number}_{caller.tries}")
        context = CallContext(ANN, request, idempotency_key=caller.key)
        target = house.gate.catalogue(DEFAULT_TENANT).find_callable(PLUGIN, caller.tool)
        self.note(f"{caller}: asks {caller.tool} {caller.key} {caller.what!r}")
        try:
            async with asyncio.timeout(patience):
                result = await house.gate.call(CallRequest(target, {"what": caller.what}, context))
        except TimeoutError:
            self.note(f"{caller}: went away")
        except PaddockError as error:
            self.note(f"{caller}: {error.error_code}")
            caller.answered = error.error_code == "effect.other_payload"
        except Exception as error:
            self.object(f"{caller} was told {error!r}")
        else:
            if self.dead:
                return
            self.note(f"{caller}: {result}")
            caller.answered = True
            told = Told(caller.tool, caller.key, caller.what, orjson.dumps(result))
            self._judged(lambda: self.world.judge.succeeded(told))

    # --- people -------------------------------------------------------------------------------------------------------

    async def _look_into_doubts(self, store: SimulatedStore) -> None:
        chances = self._stream("people")
        while True:
            await asyncio.sleep(chances.uniform(0.0, 20.0))
            with suppress(StoreUnavailable):
                for effect in await store.read(in_doubt):
                    if (
                        waits_for_a_person(effect)
                        and (self.calm or chances.random() < 0.5)
                        and not self._at_work(effect)
                    ):
                        await self._say(store, effect)

    def _at_work(self, effect: IdempotencyRecord) -> bool:
        """Whether the plugin may still do it."""
        of = (effect.effect_key.callable, effect.effect_key.key)
        return any((job.tool, job.key) == of for program in self.programs.all for job in program.undone())

    async def _say(self, store: SimulatedStore, effect: IdempotencyRecord) -> None:
        found = self.world.outside.under(effect.effect_key.callable, effect.effect_key.key)
        random, now = SeededRandom(self.chances), self.clock.now().isoformat()
        result = found[0].answer if found else None

        def unit(tx: Transaction) -> None:
            publish = TransactionLedger(tx, self.clock, random, DEFAULT_TENANT, effect.call)
            resolve(
                tx,
                publish,
                DEFAULT_TENANT,
                effect.call,
                happened=bool(found),
                result=result,
                resolved_by=ANN.id,
                now=now,
            )

        self.note(f"ann: {effect.effect_key.callable} {effect.effect_key.key} has {'' if found else 'not '}happened")
        try:
            await store.write(unit)
        except StoreUnavailable:
            raise
        except PaddockError as error:
            self.note(f"ann: {error.error_code}")  # somebody else found out

    async def _all_found_out(self, store: SimulatedStore) -> None:
        while await store.read(in_doubt):  # noqa: ASYNC110 - a person looks now and then
            await asyncio.sleep(5.0)

    # --- the judge ----------------------------------------------------------------------------------------------------

    def acted(self, act: Act) -> None:
        self.note(f"outside: {act.tool} {act.key} {act.what!r} is done, receipt {act.receipt}")
        self._judged(lambda: self.world.judge.acted(act, self.direct))

    def _committed(self, direct: SqliteDirect) -> None:
        if not self.dead and self.disk.remains is None:
            self.note("store: a group is written")
            self._judged(lambda: self.world.judge.committed(direct))

    def _judged(self, look: Callable[[], None]) -> None:
        if self.dead:
            return
        known = len(self.world.judge.broken)
        look()
        for what in self.world.judge.broken[known:]:
            self.note(f"BROKEN: {what}")
            self.loop.stop()


class _Reached(Outside):
    """The world outside, as far as one life of the host reaches: what the dead do has no effect."""

    def __init__(self, life: Life) -> None:
        super().__init__(life.world.outside.acts)
        self._life = life

    def act(self, tool: str, key: str, what: str) -> Act:
        if self._life.dead:
            return Act(tool, key, what, 0)
        before = len(self.acts)
        act = super().act(tool, key, what)
        if len(self.acts) > before:
            self._life.acted(act)
        return act
