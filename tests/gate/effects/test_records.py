"""The records of effects: on both engines, whoever comes second changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import HostError
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency import record_queries, records, retention
from paddock.gate.idempotency.fencing import is_current, next_fence
from paddock.gate.idempotency.records import EffectKey, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.queue.leases import NodeRun
from paddock.store.database import Transaction, open_direct

OF = EffectKey(Tenant("default"), "mail", "send", "k1")
HERE, THERE = NodeRun("node_a", 1), NodeRun("node_b", 1)
NOW = "2026-01-01T00:00:00+00:00"


def claimed(
    tx: Transaction, of: EffectKey = OF, call: str = "call_1", payload_hash: str = "h"
) -> IdempotencyRecord | None:
    return records.claim(
        tx,
        of,
        call=CallId(call),
        payload_hash=payload_hash,
        holder=HERE,
        recovery="none",
        now=NOW,
        principal="user:ann",
    )


def held(tx: Transaction, of: EffectKey = OF, call: str = "call_1") -> IdempotencyRecord:
    effect = claimed(tx, of, call)
    assert effect is not None
    records.mark_awaiting_approval(tx, effect)
    kept = records.find(tx, of)
    assert kept is not None
    return kept


def started(tx: Transaction, of: EffectKey = OF, call: str = "call_1") -> IdempotencyRecord:
    effect = claimed(tx, of, call)
    assert effect is not None
    return records.mark_started(tx, effect, holder=HERE, now=NOW, payload={"to": "bob"}, context={"request": "r"})


def test_what_waited_at_one_host_and_starts_at_another_is_that_ones(database_address: str) -> None:
    def starts_there(tx: Transaction) -> tuple[IdempotencyRecord, IdempotencyRecord | None]:
        said = records.mark_started(tx, held(tx), holder=THERE, now=NOW, payload={}, context={})
        return said, records.find(tx, OF)

    with open_direct(database_address) as database:
        said, found = database.write(starts_there)
    assert found is not None
    assert (said.holder, said.state) == (found.holder, found.state) == (THERE, EffectState.STARTED)


def test_a_key_is_claimed_once_and_free_again_where_the_call_came_to_nothing(database_address: str) -> None:
    with open_direct(database_address) as database:
        first = database.write(held)
        second = database.write(lambda tx: claimed(tx, call="call_2"))
        assert (first.fence, first.state) == (1, EffectState.AWAITING_APPROVAL)
        assert second is None

        assert database.write(lambda tx: records.release_claim(tx, first))
        third = database.write(lambda tx: claimed(tx, call="call_3"))
    assert third is not None and third.call == "call_3"


def test_what_had_no_effect_can_be_tried_again_under_a_higher_fence_and_what_had_one_cannot(
    database_address: str,
) -> None:
    with open_direct(database_address) as database:
        first = database.write(started)
        database.write(lambda tx: records.mark_failed(tx, first, now=NOW, error={"code": "no"}))
        again = database.write(lambda tx: started(tx, call="call_2"))
        assert again.fence == 2

        with pytest.raises(HostError) as stale:  # the answer of the first comes late
            database.write(lambda tx: records.mark_succeeded(tx, first, now=NOW, result=b"1"))
        assert stale.value.error_code == "effect.stale"

        database.write(lambda tx: records.mark_succeeded(tx, again, now=NOW, result=b"2"))
        assert database.write(lambda tx: claimed(tx, call="call_3")) is None
        kept = database.read(lambda tx: records.find(tx, OF))
    assert kept is not None
    assert (kept.state, kept.result, kept.payload, kept.call) == (EffectState.SUCCEEDED, b"2", None, "call_2")


def test_of_two_who_make_a_lost_call_again_the_second_has_the_word_and_whoever_claims_it_then_is_above_both(
    database_address: str,
) -> None:
    with open_direct(database_address) as database:
        first = database.write(started)
        database.write(lambda tx: records.mark_in_doubt(tx, first, error={"code": "host.lost"}))
        lost = database.read(lambda tx: records.find(tx, OF))
        assert lost is not None
        slow = database.write(lambda tx: records.raise_fence(tx, lost))
        quick = database.write(lambda tx: records.raise_fence(tx, slow))
        served = [run.fence for run in (first, slow, quick) if is_current(quick, run.fence)]
        runs = [next_fence(slow), next_fence(quick)]
        assert served == [] and [is_current(quick, fence) for fence in runs] == [False, True]

        for late in (lost, slow):
            with pytest.raises(HostError) as stale:
                database.write(lambda tx, late=late: records.mark_succeeded(tx, late, now=NOW, result=b"1"))
            assert stale.value.error_code == "effect.stale"
        database.write(lambda tx: records.mark_failed(tx, quick, now=NOW, error={}))
        again = database.write(lambda tx: started(tx, call="call_2"))
    assert again.fence > max(runs)


def test_another_payload_takes_no_key_not_even_of_what_failed(database_address: str) -> None:
    with open_direct(database_address) as database:
        first = database.write(started)
        database.write(lambda tx: records.mark_failed(tx, first, now=NOW, error={}))
        assert database.write(lambda tx: claimed(tx, payload_hash="other")) is None


def test_what_was_in_doubt_keeps_what_it_was_made_with_and_can_be_listed_once_it_is_resolved(
    database_address: str,
) -> None:
    with open_direct(database_address) as database:
        first = database.write(started)
        database.write(lambda tx: records.mark_in_doubt(tx, first, error={"code": "host.lost"}))
        (doubt,) = database.read(lambda tx: record_queries.list_in_state(tx, EffectState.IN_DOUBT))
        assert database.read(lambda tx: record_queries.list_in_state(tx, EffectState.IN_DOUBT, tenant=OF.tenant)) == [
            doubt
        ]
        assert not database.read(
            lambda tx: record_queries.list_in_state(tx, EffectState.IN_DOUBT, tenant=OF.tenant, after=doubt.call)
        )
        assert (doubt.payload, doubt.context, doubt.error) == (
            {"to": "bob"},
            {"request": "r"},
            {"code": "host.lost"},
        )
        database.write(
            lambda tx: records.mark_succeeded(
                tx, doubt, now=NOW, result=b"{}", resolution=Resolution.HUMAN, resolved_by="user:ann"
            )
        )
        (over,) = database.read(lambda tx: record_queries.list_resolved(tx, OF.tenant))
        assert not database.read(lambda tx: record_queries.list_resolved(tx, OF.tenant, after=over.call))
        assert not database.read(lambda tx: record_queries.list_resolved(tx, Tenant("acme")))
    assert (over.state, over.resolution, over.resolved_by) == (EffectState.SUCCEEDED, Resolution.HUMAN, "user:ann")
    assert (over.payload, over.context) == ({"to": "bob"}, None)


def test_of_a_run_that_is_over_what_it_had_started_is_in_doubt_and_what_waits_for_a_person_goes_on_to_wait(
    database_address: str,
) -> None:
    with open_direct(database_address) as database:
        database.write(lambda tx: started(tx, OF._replace(key="k5"), "call_5"))
        database.write(started)
        database.write(lambda tx: held(tx, OF._replace(key="k2"), "call_2"))
        done = database.write(lambda tx: started(tx, OF._replace(key="k6"), "call_6"))
        database.write(lambda tx: records.mark_succeeded(tx, done, now=NOW, result=b"1"))
        others = database.write(lambda tx: records.mark_in_doubt_for(tx, THERE, error={"code": "host.lost"}))
        lost = database.write(lambda tx: records.mark_in_doubt_for(tx, HERE, error={"code": "host.lost"}))
        once_more = database.write(lambda tx: records.mark_in_doubt_for(tx, HERE, error={"code": "host.lost"}))
        found = {
            key: database.read(lambda tx, key=key: records.find(tx, OF._replace(key=key)))
            for key in ("k1", "k2", "k5", "k6")
        }
    assert (others, once_more) == ([], [])
    assert [(effect.call, effect.state) for effect in lost] == [
        ("call_1", EffectState.IN_DOUBT),
        ("call_5", EffectState.IN_DOUBT),
    ]
    assert {key: effect and (effect.state, effect.fence) for key, effect in found.items()} == {
        "k1": (EffectState.IN_DOUBT, 1),
        "k2": (EffectState.AWAITING_APPROVAL, 1),
        "k5": (EffectState.IN_DOUBT, 1),
        "k6": (EffectState.SUCCEEDED, 1),
    }
    assert lost[0] == found["k1"]
    assert lost[0].error == {"code": "host.lost"}


QUESTIONS: dict[str, Callable[[Transaction], object]] = {
    "listed": lambda tx: record_queries.list_in_state(tx, EffectState.IN_DOUBT),
    "listed of a tenant": lambda tx: record_queries.list_in_state(tx, EffectState.IN_DOUBT, tenant=OF.tenant),
    "waiting for a person": lambda tx: record_queries.list_waiting(tx, OF.tenant),
    "counted": lambda tx: record_queries.count_in_doubt(tx, OF.tenant),
    "counted for each tenant": record_queries.count_in_doubt_by_tenant,
    "not recovered": record_queries.in_doubt_unscheduled,
    "parked": lambda tx: record_queries.list_parked(tx, 10),
    "not followed": record_queries.parked_unscheduled,
    "lost with a host": lambda tx: records.mark_in_doubt_for(tx, HERE, error={}),
    "orphaned and expired": lambda tx: retention.expire_results(tx, before=NOW, now=NOW),
    "of a plugin that goes": lambda tx: retention.erase_plugin(tx, "mail", SystemClock(), SystemRandom()),
}
WHOLE_TABLE = {"of a plugin that goes": 3}  # the results of a plugin are found without an index; that is rare


def test_what_is_not_over_is_found_without_reading_what_is_over(tmp_path: Path) -> None:
    asked: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}

    class Listens:
        def __init__(self, tx: Transaction, name: str) -> None:
            self.tx, self.seen = tx, asked.setdefault(name, [])

        def __getattr__(self, method: str) -> Callable[..., Any]:
            def run(sql: str, values: tuple[Any, ...] = ()) -> Any:
                self.seen.append((sql, tuple(values)))
                return getattr(self.tx, method)(sql, values)

            return run

    with open_direct(tmp_path / "db") as database:
        for name, ask in QUESTIONS.items():
            database.write(lambda tx, name=name, ask=ask: ask(cast("Transaction", Listens(tx, name))))
    scans: dict[str, int] = {}
    with sqlite3.connect(tmp_path / "db") as raw:
        for name, statements in asked.items():
            for sql, values in statements:
                plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
                scans[name] = scans.get(name, 0) + sum(step.startswith("SCAN effects") for step in plan)
    assert {name: number for name, number in scans.items() if number} == WHOLE_TABLE
