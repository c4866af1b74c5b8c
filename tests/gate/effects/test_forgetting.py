"""What came of effects is let go of after its time, with its plugin, or for a person; that they happened never is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.gate.effects.in_progress.test_in_progress import NAME as WORKS
from tests.gate.effects.in_progress.test_in_progress import Works, ask
from tests.gate.effects.test_once import note, recorded
from tests.gate.effects.test_records import NOW, OF, claimed, held, started
from tests.gate.test_governed_calls import Office

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Conflict
from paddock.gate.idempotency import record_queries, records
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.retention import erase_people, erase_plugin, expire_results
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.host.wiring.background_jobs import EFFECT_RETENTION_JOB
from paddock.store.database import DirectDatabase, Transaction, open_direct


def test_results_are_forgotten_after_their_time_and_the_key_never_is(database_address: str) -> None:
    with open_direct(database_address) as database:
        first = database.write(started)
        database.write(lambda tx: records.mark_succeeded(tx, first, now=NOW, result=b"1"))
        assert database.write(lambda tx: expire_results(tx, before="2025-12-31", now=NOW)) == 0
        assert database.write(lambda tx: expire_results(tx, before="2026-02-01", now=NOW)) == 1
        kept = database.read(lambda tx: records.find(tx, OF))
        assert database.write(lambda tx: claimed(tx, call="call_2")) is None
    assert kept is not None and (kept.result, kept.principal, kept.key_record.forgotten) == (None, None, True)


def test_whoever_is_to_be_forgotten_is_not_found_in_what_is_over_and_the_key_stays_used(database_address: str) -> None:
    with open_direct(database_address) as database:
        first = database.write(started)
        database.write(lambda tx: records.mark_succeeded(tx, first, now=NOW, result=b'"to ann"'))
        doubtful = database.write(lambda tx: started(tx, OF._replace(key="k2"), "call_2"))
        database.write(lambda tx: records.mark_in_doubt(tx, doubtful, error={"code": "host.lost"}))
        database.write(lambda tx: erase_people(tx, "default", ["user:ann"], NOW))
        over = database.read(lambda tx: records.find(tx, OF))
        doubt = database.read(lambda tx: records.find(tx, OF._replace(key="k2")))
    assert over is not None and doubt is not None
    assert (over.principal, over.result, over.key_record.forgotten) == (None, None, True)
    assert (doubt.principal, doubt.payload) == (None, {"to": "bob"}), "somebody has to find out what became of it"


def found(database: DirectDatabase, key: str = OF.key) -> IdempotencyRecord | None:
    return database.read(lambda tx: records.find(tx, OF._replace(key=key)))


def test_of_a_call_without_a_key_nothing_remains_after_its_time(database_address: str) -> None:
    of = OF._replace(key="call_1")
    with open_direct(database_address) as database:
        done = database.write(lambda tx: started(tx, of, "call_1"))
        database.write(lambda tx: records.mark_succeeded(tx, done, now=NOW, result=b"1"))
        assert database.write(lambda tx: expire_results(tx, before="2026-02-01", now=NOW)) == 1
        assert found(database, "call_1") is None
        assert database.write(lambda tx: expire_results(tx, before="2026-02-01", now=NOW)) == 0


def test_what_failed_keeps_no_words_after_its_time_and_its_key_can_be_used_as_before(database_address: str) -> None:
    with open_direct(database_address) as database:
        failed = database.write(started)
        database.write(lambda tx: records.mark_failed(tx, failed, now=NOW, error={"message": "no mail for ann"}))
        database.write(lambda tx: expire_results(tx, before="2026-02-01", now=NOW))
        kept = found(database)
        again = database.write(lambda tx: started(tx, call="call_2"))
        database.write(lambda tx: records.mark_succeeded(tx, again, now=NOW, result=b"2"))
        done = found(database)
    assert kept is not None and (kept.state, kept.error, kept.principal) == (EffectState.FAILED_NO_EFFECT, None, None)
    assert done is not None and (done.fence, done.result, done.key_record.forgotten) == (2, b"2", False)


def test_a_key_that_waits_for_a_request_which_is_over_is_free_after_its_time(database_address: str) -> None:
    def failed_before(tx: Transaction) -> None:
        records.mark_failed(tx, started(tx, OF._replace(key="k2"), "call_2"), now=NOW, error={})

    with open_direct(database_address) as database:
        database.write(lambda tx: held(tx))
        database.write(failed_before)
        database.write(lambda tx: held(tx, OF._replace(key="k2"), "call_3"))
        database.write(lambda tx: expire_results(tx, before="2025-12-31", now=NOW))
        still = found(database)
        database.write(lambda tx: expire_results(tx, before="2026-02-01", now=NOW))
        after = found(database), found(database, "k2")
    assert still is not None and still.state is EffectState.AWAITING_APPROVAL
    assert after[0] is None
    assert after[1] is not None and (after[1].state, after[1].fence) == (EffectState.FAILED_NO_EFFECT, 2)


def test_forgetting_whoever_failed_with_a_key_does_not_make_its_next_success_forgotten(database_address: str) -> None:
    with open_direct(database_address) as database:
        failed = database.write(started)
        database.write(lambda tx: records.mark_failed(tx, failed, now=NOW, error={"message": "no mail for ann"}))
        database.write(lambda tx: erase_people(tx, "default", ["user:ann"], NOW))
        again = database.write(lambda tx: started(tx, call="call_2"))
        database.write(lambda tx: records.mark_succeeded(tx, again, now=NOW, result=b"2"))
        done = found(database)
    assert done is not None and (done.result, done.key_record.forgotten) == (b"2", False)


def test_what_was_under_way_for_whoever_is_to_be_forgotten_keeps_nothing_of_what_comes_of_it(
    database_address: str,
) -> None:
    with open_direct(database_address) as database:
        going = database.write(started)
        database.write(lambda tx: erase_people(tx, "default", ["user:ann"], NOW))
        database.write(lambda tx: records.mark_succeeded(tx, going, now=NOW, result=b'"to ann"'))
        done = found(database)
    assert done is not None and (done.state, done.result, done.payload) == (EffectState.SUCCEEDED, None, None)
    assert done.key_record.forgotten


def test_what_a_resolved_doubt_was_made_with_goes_with_its_result_and_with_its_maker(database_address: str) -> None:
    def lived(tx: Transaction) -> None:
        for key in ("k1", "k2", "k3"):
            lost = started(tx, OF._replace(key=key), f"call_{key}")
            records.mark_in_doubt(tx, lost, error={"code": "host.lost"})
        for key, resolve in (("k1", happened), ("k2", not_happened)):
            resolve(tx, key)

    def doubt(tx: Transaction, key: str) -> IdempotencyRecord:
        found = records.find(tx, OF._replace(key=key))
        assert found is not None
        return found

    def happened(tx: Transaction, key: str) -> None:
        records.mark_succeeded(
            tx, doubt(tx, key), now=NOW, result=b"1", resolution=Resolution.HUMAN, resolved_by="user:bob"
        )

    def not_happened(tx: Transaction, key: str) -> None:
        records.mark_failed(tx, doubt(tx, key), now=NOW, error={}, resolution=Resolution.HUMAN, resolved_by="user:bob")

    with open_direct(database_address) as database:
        database.write(lived)
        assert [one.payload for one in database.read(lambda tx: record_queries.list_resolved(tx, OF.tenant))] == [
            {"to": "bob"}
        ] * 2
        database.write(lambda tx: expire_results(tx, before="2026-02-01", now=NOW))
        assert [one.payload for one in database.read(lambda tx: record_queries.list_resolved(tx, OF.tenant))] == [
            None
        ] * 2

        database.write(lambda tx: erase_people(tx, "default", ["user:ann"], NOW))
        database.write(lambda tx: not_happened(tx, "k3"))
        last = found(database, "k3")
    assert last is not None and (last.state, last.payload) == (EffectState.FAILED_NO_EFFECT, None)


@pytest.mark.parametrize("happened", [True, False])
def test_what_a_person_made_a_resolved_effect_with_is_erased_with_them_long_before_its_time_is_over(
    database_address: str, happened: bool
) -> None:
    def lived(tx: Transaction) -> IdempotencyRecord | None:
        records.mark_in_doubt(tx, started(tx), error={"code": "host.lost"})
        lost = records.find(tx, OF)
        assert lost is not None
        if happened:
            records.mark_succeeded(
                tx, lost, now=NOW, result=b'"to bob"', resolution=Resolution.HUMAN, resolved_by="user:bob"
            )
        else:
            records.mark_failed(
                tx, lost, now=NOW, error={"message": "to bob"}, resolution=Resolution.HUMAN, resolved_by="user:bob"
            )
        return records.find(tx, OF)

    with open_direct(database_address) as database:
        before = database.write(lived)
        database.write(lambda tx: erase_people(tx, "default", ["user:ann"], NOW))
        after = found(database)
    assert before is not None and before.payload == {"to": "bob"}
    assert after is not None and (after.principal, after.payload, after.result, after.error) == (None,) * 4


def test_with_a_plugin_goes_all_that_its_calls_were_made_with_and_gave(database_address: str) -> None:
    def lived(tx: Transaction) -> None:
        records.mark_succeeded(tx, started(tx), now=NOW, result=b'"canary"')
        records.mark_failed(tx, started(tx, OF._replace(key="k2"), "call_2"), now=NOW, error={"message": "canary"})
        records.mark_in_doubt(tx, started(tx, OF._replace(key="k3"), "call_3"), error={"message": "canary"})
        records.mark_succeeded(tx, started(tx, OF._replace(key="call_4"), "call_4"), now=NOW, result=b'"canary"')
        others = OF._replace(plugin="other")
        records.mark_succeeded(tx, started(tx, others, "call_5"), now=NOW, result=b'"kept"')

    with open_direct(database_address) as database:
        database.write(lived)
        database.write(lambda tx: erase_plugin(tx, "mail", SystemClock(), SystemRandom()))
        one, two, three, four = (found(database, key) for key in ("k1", "k2", "k3", "call_4"))
        other = database.read(lambda tx: records.find(tx, OF._replace(plugin="other")))
    assert one is not None and (one.result, one.key_record.forgotten) == (None, True)
    assert two is not None and two.error is None
    assert three is not None and three.state is EffectState.IN_DOUBT, "a person can still say what became of it"
    assert (three.payload, three.context, three.recovery) == (None, None, "none")
    assert three.error == {"code": "plugin.uninstalled", "message": "its plugin was uninstalled"}
    assert four is None
    assert other is not None and other.result == b'"kept"'


def test_what_a_plugin_was_still_at_work_on_is_in_doubt_once_it_is_gone_and_nobody_asks_it_any_more(
    tmp_path: Path,
) -> None:
    works = Works(tmp_path)
    paddock = Paddock(works.home.path)
    with daemon(paddock) as running:
        made = ask(running, {}, "?detach=true")["call_id"]
        eventually(lambda: works.parked, "it is in progress")
    paddock.quickly("plugin", "remove", WORKS, "--yes")
    gone = works.effect()
    with open_direct(works.home.path / "data" / "paddock.db") as database:
        kinds = {row["kind"] for row in database.read(lambda tx: tx.all("SELECT kind FROM queue"))}
    with daemon(paddock) as running:
        (doubt,) = paddock.quickly("call", "unresolved", "list", "--json").json["doubts"]
        said = running.ask("GET", f"/calls/{doubt['call_id']}")
    assert (gone.state, gone.payload, gone.recovery) == (EffectState.IN_DOUBT, None, "none")
    assert kinds <= {EFFECT_RETENTION_JOB}
    assert doubt["call_id"] == gone.call == made
    assert said.body["status"] == "in_doubt", "no host follows it"
    told = [one["type"] for one in works.told() if one["call"] == made]
    assert told == ["call.started", "effect.in_progress", "effect.in_doubt"]
    assert not [line for line in running.log if "KeyError" in line or "internal" in line]
    assert paddock.quickly("ledger", "verify", "--json").json["verdict"] == "sound"


# --- on a whole host ------------------------------------------------------------------------------------------------


async def test_a_daemon_lets_go_of_what_it_kept_long_enough_and_nobody_makes_that_again(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with office.open() as host:
        await note(host, "k1")
        await note(host, "k2")
    with open_direct(office.home / "data" / "paddock.db") as database:
        database.write(lambda tx: tx.execute("UPDATE effects SET ended_at = ? WHERE key = 'k1'", (NOW,)))
        database.write(lambda tx: tx.execute("UPDATE queue SET due_at = ? WHERE kind = ?", (NOW, EFFECT_RETENTION_JOB)))

    def is_forgotten() -> bool:
        kept = recorded(office)
        return kept is not None and kept.key_record.forgotten

    async with office.open() as host:
        await asyncio.to_thread(eventually, is_forgotten, "what came of it is still kept")
        with pytest.raises(Conflict) as gone:
            await note(host, "k1")
        assert await note(host, "k2") == {"done": "note"}
    assert gone.value.error_code == "effect.forgotten"
    assert office.done == ["note", "note"]
