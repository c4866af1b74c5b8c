"""What must be true of every history, whatever dies when: the promises, against what has really happened outside."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from tests.simulation.outside import PLUGIN, Act, Outside

from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.records import EffectKey, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.ledger.chain.verify import verify_ledger
from paddock.ledger.read.entries import list_entries
from paddock.queue.leases import NodeRun
from paddock.store.database import DirectDatabase, Transaction

_AFTER_THE_START = (EffectState.STARTED, EffectState.SUCCEEDED, EffectState.IN_DOUBT)
_NOWHERE = Path("/simulated-state")  # no checkpoints are signed


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody was told of a success."""

    tool: str
    key: str | None
    what: str
    answer: bytes


@dataclass(slots=True)
class Judge:
    """Knows what happened outside and what callers were told, and holds the records against it."""

    outside: Outside
    wishes: frozenset[tuple[str, str | None, str]]  # tool, key and parameter of all that anybody asks for
    told: list[Told] = field(default_factory=list[Told])
    broken: list[str] = field(default_factory=list[str])

    def object(self, what: str) -> None:
        self.broken.append(what)

    # --- at each step -------------------------------------------------------------------------------------------------

    def acted(self, act: Act, database: DirectDatabase) -> None:
        """Something happens: for the first time under its key, and on record."""
        if len(self.outside.under(act.tool, act.key)) > 1:
            self.object(f"{act.tool} happened twice under {act.key}")
        if not self.wishes & {(act.tool, key, act.what) for key in (act.key, None)}:
            self.object(f"nobody asked for {act.tool} {act.key} with {act.what!r}")
        row = database.read(lambda tx: records.find(tx, EffectKey(DEFAULT_TENANT, PLUGIN, act.tool, act.key)))
        if row is None or row.state not in (EffectState.STARTED, EffectState.IN_DOUBT):
            self.object(f"{act.tool} {act.key} happened while it was {row.state if row else 'not on record'}")

    def committed(self, database: DirectDatabase) -> None:
        """Something was written: no record says what is not so, and nothing that has happened is without one."""
        rows = {(row.effect_key.callable, row.effect_key.key): row for row in database.read(_rows)}
        happened = Counter((act.tool, act.key) for act in self.outside.acts)
        for of, row in rows.items():
            if row.state is EffectState.SUCCEEDED and happened[of] != 1:
                self.object(f"{of} is recorded as {row.state}, and happened {happened[of]} times")
            if row.state not in _AFTER_THE_START and happened[of]:
                self.object(f"{of} is recorded as {row.state}, and has happened")
        for of in happened:
            if of not in rows:
                self.object(f"{of} has happened, and nothing is on record")

    def succeeded(self, told: Told) -> None:
        """Somebody is told of a success: of one thing that has happened, which is theirs, in the same bytes as all."""
        self.told.append(told)
        answer = orjson.loads(told.answer)
        found = [act for act in self.outside.acts if act.answer == answer and act.tool == told.tool]
        if len(found) != 1 or found[0].what != told.what or (told.key is not None and found[0].key != told.key):
            self.object(f"{told} was told of what has not happened")
        if told.key is not None and any(
            other.answer != told.answer for other in self.told if (other.tool, other.key) == (told.tool, told.key)
        ):
            self.object(f"two answers were given under {told.key}")

    # --- after each start ---------------------------------------------------------------------------------------------

    def recovered(self, database: DirectDatabase, here: NodeRun) -> None:
        """A host is there again: what the one before it had begun is neither its own nor under way."""
        for row in database.read(_rows):
            if row.state in (EffectState.CLAIMED, EffectState.STARTED) and row.holder != here:
                self.object(
                    f"{row.effect_key.callable} {row.effect_key.key} of a host that is gone is still {row.state}"
                )
        self.chained(database)

    def chained(self, database: DirectDatabase) -> None:
        for finding in verify_ledger(database, _NOWHERE):
            if finding.verdict != "sound":
                self.object(f"the ledger is {finding.verdict} at {finding.seq}: {finding.what}")

    # --- when all is over ---------------------------------------------------------------------------------------------

    def over(self, database: DirectDatabase) -> None:
        """Nobody asks for anything any more: nothing is open, nothing lost, and the ledger tells of all of it."""
        self.committed(database)
        self.chained(database)
        rows = database.read(_rows)
        entries = database.read(lambda tx: list_entries(tx, newest_first=False, limit=100_000))
        seen = Counter((entry.type, entry.call) for entry in entries)
        for row in rows:
            name = f"{row.effect_key.callable} {row.effect_key.key}"
            if row.state not in (EffectState.SUCCEEDED, EffectState.FAILED_NO_EFFECT):
                self.object(f"{name} is {row.state} at the end")
            if seen["call.started", row.call] != 1:
                self.object(f"{name} has {seen['call.started', row.call]} entries of its start")
            ends = (seen["call.ended", row.call], seen["effect.in_doubt", row.call])
            if max(ends) != 1:  # what is in doubt has both, or the second alone where its host was lost
                self.object(f"{name} has {ends} entries of its end")
            if (row.resolution is not None) != bool(seen["effect.resolved", row.call]):
                self.object(f"{name} was found out by {row.resolution}, and the ledger tells otherwise")
        results = {(row.effect_key.callable, row.effect_key.key): row.result for row in rows}
        for told in self.told:
            if told.key is not None and results.get((told.tool, told.key)) != told.answer:
                self.object(f"what was told of {told.tool} {told.key} is not kept")


def _rows(tx: Transaction) -> list[IdempotencyRecord]:
    return [row for state in EffectState for row in record_queries.list_in_state(tx, state)]


def in_doubt(tx: Transaction) -> list[IdempotencyRecord]:
    """What a person would look into."""
    return record_queries.list_in_state(tx, EffectState.IN_DOUBT)


def waits_for_a_person(effect: IdempotencyRecord) -> bool:
    """Whether nobody else finds out: there is no way, or it would be made again and somebody has cancelled it."""
    cancelled = (effect.error or {}).get("code") == "call.cancelled"
    return effect.recovery == "none" or (effect.recovery == "native_key" and cancelled)
