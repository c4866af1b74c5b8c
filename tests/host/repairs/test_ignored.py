"""What people said to leave alone, and how doubts are counted, by the rows of both engines."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime

import pytest

from paddock.core.errors import NotFound
from paddock.core.events.event import Event
from paddock.core.ids import DEFAULT_TENANT, CallId, PrincipalId, Tenant
from paddock.gate.idempotency import records
from paddock.gate.idempotency.record_queries import count_in_doubt
from paddock.gate.idempotency.records import RECOVER_JOB, EffectKey
from paddock.host.repairs.ignore_list import delete_ignored, ignore_repair, read_ignored, unignore_repair
from paddock.host.repairs.repair import Repair, Severity
from paddock.queue import leases, queue
from paddock.queue.job import Job
from paddock.queue.leases import NodeRun
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import DirectDatabase, Transaction, open_direct

ANN, NOW = PrincipalId("user:ann"), "2030-01-31T08:00:00+00:00"
ONE = Repair("plugin.modified", "notes", Severity.BROKEN, "It changed", "main.py changed", "It does not run")
OTHER = Repair("plugin.modified", "notes", Severity.BROKEN, "It changed", "other.py changed", "It does not run")


class Told(list[Event]):
    def publish(self, event: Event) -> None:
        self.append(event)


@pytest.fixture
def database(database_address: str) -> Generator[DirectDatabase, None, None]:
    with open_direct(database_address) as opened:
        yield opened


def test_a_word_counts_for_the_cause_that_was_seen_and_for_its_tenant(database: DirectDatabase) -> None:
    told = Told()

    def change(tx: Transaction, tenant: Tenant = DEFAULT_TENANT) -> AuditedTransaction:
        return AuditedTransaction(tx, tenant, ANN, NOW, told)

    database.write(lambda tx: ignore_repair(change(tx), ONE))
    database.write(lambda tx: ignore_repair(change(tx), ONE))
    words = database.read(lambda tx: read_ignored(tx, DEFAULT_TENANT))

    assert {name: (word.ignored_by, word.ignored_at) for name, word in words.items()} == {ONE.id: (ANN, NOW)}
    assert words[ONE.id].matches(ONE)
    assert not words[ONE.id].matches(OTHER)
    assert database.read(lambda tx: read_ignored(tx, Tenant("acme"))) == {}

    database.write(lambda tx: ignore_repair(change(tx), OTHER))
    assert database.read(lambda tx: read_ignored(tx, DEFAULT_TENANT))[ONE.id].matches(OTHER)
    with pytest.raises(NotFound):
        database.write(lambda tx: unignore_repair(change(tx, Tenant("acme")), ONE.id))
    database.write(lambda tx: unignore_repair(change(tx), ONE.id))
    with pytest.raises(NotFound):
        database.write(lambda tx: unignore_repair(change(tx), ONE.id))
    assert [one.type for one in told] == ["repair.ignored"] * 3 + ["repair.unignored"]

    database.write(lambda tx: ignore_repair(change(tx), ONE))
    database.write(lambda tx: delete_ignored(tx, DEFAULT_TENANT, [ONE.id, "nothing:"]))
    assert database.read(lambda tx: read_ignored(tx, DEFAULT_TENANT)) == {}


def test_doubts_are_counted_and_those_told_apart_that_only_a_person_can_settle(database: DirectDatabase) -> None:
    def lost(tx: Transaction, call: str, recovery: str) -> None:
        of = EffectKey(DEFAULT_TENANT, "notes", "add", call)
        started = records.encode_call({"text": "hay"}, {})
        effect = records.claim(
            tx, of, call=CallId(call), payload_hash="0", holder=NodeRun("node_a", 1), recovery=recovery, now=NOW,
            principal=ANN, stored_call=started,
        )  # fmt: skip
        assert effect is not None
        records.mark_in_doubt(tx, effect, error={"message": "it ended"})

    assert database.read(lambda tx: count_in_doubt(tx, DEFAULT_TENANT)) == (0, 0, "")
    for call, recovery in (("call_1", "none"), ("call_2", "probe"), ("call_3", "probe")):
        database.write(lambda tx, call=call, recovery=recovery: lost(tx, call, recovery))
    due = datetime(2030, 1, 31, tzinfo=UTC)
    database.write(lambda tx: queue.enqueue(tx, DEFAULT_TENANT, RECOVER_JOB, "call_3", due=due, now=due))

    assert database.read(lambda tx: count_in_doubt(tx, DEFAULT_TENANT)) == (3, 2, "call_2")
    assert database.read(lambda tx: count_in_doubt(tx, Tenant("acme"))) == (0, 0, "")


def test_what_was_to_be_done_later_is_hurried_unless_somebody_has_it(database: DirectDatabase) -> None:
    now, later = datetime(2030, 1, 31, tzinfo=UTC), datetime(2031, 1, 31, tzinfo=UTC)
    database.write(lambda tx: queue.enqueue(tx, DEFAULT_TENANT, RECOVER_JOB, "call_1", due=later, now=now))

    assert database.write(lambda tx: queue.expedite(tx, DEFAULT_TENANT, RECOVER_JOB, "call_1", now=now))
    assert database.read(lambda tx: queue.find_due(tx, DEFAULT_TENANT, RECOVER_JOB, "call_1")) == now
    assert not database.write(lambda tx: queue.expedite(tx, DEFAULT_TENANT, RECOVER_JOB, "call_2", now=now))

    def claim(tx: Transaction) -> Job | None:
        here = leases.open_lease(tx, "node_a", daemon=True)
        return queue.claim_one(tx, here, DEFAULT_TENANT, RECOVER_JOB, "call_1", now=now)

    assert database.write(claim)
    assert not database.write(lambda tx: queue.expedite(tx, DEFAULT_TENANT, RECOVER_JOB, "call_1", now=now))
