"""The pure parts: what hashes are over, the tree, and what of an event is personal."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.ledger.chains import example

from fixtures.all_cases import all_cases
from paddock.core.canonical import canonical_bytes
from paddock.core.clock import SystemRandom
from paddock.core.events import index
from paddock.core.events.calls import CallEnded
from paddock.core.events.event import EVENT_TYPES, Event
from paddock.core.events.plugin_runtime import PluginStdoutNoise
from paddock.ledger.chain.anchors import Anchors
from paddock.ledger.chain.merkle import MerkleTree
from paddock.ledger.chain.verifier import ChainError, ChainFinding, ChainHead, ChainVerifier, VerifiedPart
from paddock.ledger.entry import EntryDraft, prepare_entry
from paddock.ledger.entry_fields import FACT_FIELDS, PERSONAL_FIELDS
from paddock.ledger.entry_hash import GENESIS_HASH, SealedEntry, entry_hash
from paddock.ledger.stored_row import fill_template, select_listed

AT = datetime(2030, 1, 31, 8, tzinfo=UTC)
TEXT = st.text(max_size=8)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def audited(value: Any, payload: str | None = None) -> Event:
    return index.PluginAudited("notes", payload or "", {"value": value}, None, None)


def chain_of(told: list[Event]) -> list[SealedEntry]:
    rows: list[SealedEntry] = []
    prev = GENESIS_HASH
    for seq, event in enumerate(told, 1):
        one = prepare_entry(f"evt_{seq}", EntryDraft(event, "default", AT, principal="bob"), SystemRandom())
        prev = entry_hash(prev, "default", seq, one, one.facts)
        personal = one.personal.decode() if one.personal else None
        rows.append(SealedEntry("default", seq, *one[:7], one.facts.decode(), personal, one.salt, one.commitment, prev))
    return rows


def end_of(rows: list[SealedEntry]) -> ChainHead | None:
    return ChainHead(rows[-1].seq, rows[-1].hash) if rows else None


def verified(rows: list[SealedEntry], head: ChainHead | None) -> ChainFinding:
    verifier = ChainVerifier("default", Anchors())
    try:
        verifier.check_rows(rows)
        verifier.check_head(head)
    except ChainError as error:
        return verifier.finding(error)
    return verifier.finding(None)


@given(st.lists(JSON, max_size=5))
def test_whatever_is_told_makes_a_sound_chain_for_both_verifiers(values: list[Any]) -> None:
    rows = chain_of([audited(value) for value in values])
    assert verified(rows, end_of(rows)).verdict == "sound"
    read = [
        {
            **row._asdict(),
            "facts": json.loads(row.facts),
            "personal": row.personal and json.loads(row.personal),
            **{name: getattr(row, name) and getattr(row, name).hex() for name in ("salt", "commitment", "hash")},
        }
        for row in rows
    ]
    end = (rows[-1].seq, rows[-1].hash.hex()) if rows else (0, "0" * 64)
    assert example().verify("default", read, [], [], end)[0] == (4 if rows else 3), "and says that nothing is signed"


@given(st.lists(TEXT, min_size=1, max_size=5), st.data())
def test_whatever_is_changed_in_a_row_is_found_in_that_row(values: list[str], data: st.DataObject) -> None:
    rows = chain_of([audited(value) for value in values])
    place = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from([name for name in SealedEntry._fields[:14] if name != "tenant"]))
    value = getattr(rows[place], name)
    other: Any = {int: lambda: value + 1, bytes: lambda: value[:-1] + bytes([value[-1] ^ 1])}.get(
        type(value), lambda: f"{value or ''}x"
    )()
    changed = [*rows[:place], rows[place]._replace(**{name: other}), *rows[place + 1 :]]
    finding = verified(changed, end_of(rows))
    assert (finding.verdict, finding.seq) == ("tampered", place + 1)


def test_a_part_continues_a_chain_only_from_the_hash_that_it_began_with() -> None:
    rows = chain_of([audited(number) for number in range(6)])
    first, second = ChainVerifier("default", Anchors()), ChainVerifier("default", Anchors(), 3, rows[2].hash)
    first.check_rows(rows[:3])
    second.check_rows(rows[3:])
    part = VerifiedPart(rows[2].hash, second.seq, second.last, second.erased, second.claimed, second.times)
    assert not first.add_part(replace(part, after=rows[1].hash))
    assert first.seq == 3
    assert first.add_part(part)
    first.check_head(end_of(rows))
    assert first.finding(None) == verified(rows, end_of(rows))


@given(JSON)
def test_facts_are_canonical_whichever_way_they_are_written(value: Any) -> None:
    one = prepare_entry("evt_1", EntryDraft(audited(value), "default", AT), SystemRandom())
    assert one.facts.decode() == example().canonical(json.loads(one.facts))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["req_1", "\x01", "%s", "call_1"])
MAYBE = st.none() | TEXTS
ENDED = st.fixed_dictionaries(
    dict.fromkeys(CallEnded.__struct_fields__, MAYBE)
    | dict.fromkeys(("name", "method", "version", "digest", "request_id", "status"), TEXTS)
    | dict.fromkeys(("effects", "policies", "stands_for"), st.lists(TEXTS, max_size=2).map(tuple))
    | {"success": st.booleans(), "background": st.none() | st.booleans()}
    | {
        "duration_ms": st.sampled_from([0.0, 0.5, 2.0, 1e-7, 12.25]),
        "metrics": st.dictionaries(TEXTS, JSON, max_size=2),
    }
    | dict.fromkeys(("undisclosed", "artifacts", "replay_of", "proposed"), st.none())
)


@given(st.lists(ENDED, min_size=1, max_size=4), st.sampled_from([None, "req_1", "\x02"]))
def test_facts_are_the_same_bytes_whether_or_not_entries_like_them_came_before(
    all_fields: list[dict[str, Any]], request: str | None
) -> None:
    for fields in [*all_fields, *all_fields]:
        entry = prepare_entry(
            "evt_1", EntryDraft(CallEnded(**fields), "default", AT, "call_1", request), SystemRandom()
        )
        known = {name: value for name, value in fields.items() if name in FACT_FIELDS and value is not None}
        assert entry.facts == canonical_bytes(known)
        template, values = entry.stored
        stored = values if template is None else fill_template(template, values, entry.call, entry.request)
        assert stored == entry.facts
        assert entry.listed == select_listed("call.ended", known)
        assert (entry.plugin, entry.request) == (known["name"], request or known["request_id"])


@pytest.mark.parametrize("value", [2**60, float("nan"), float("inf"), "\ud800", {1: "x"}, {"\udfff": object()}])
def test_what_json_has_no_place_for_does_not_stop_the_ledger(value: Any) -> None:
    one = prepare_entry("evt_1", EntryDraft(audited(value), "default", AT), SystemRandom())
    assert one.facts == canonical_bytes(json.loads(one.facts))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70))
def test_the_tree_that_grows_is_the_tree_of_the_standard(leaves: list[bytes]) -> None:
    def root(part: list[bytes]) -> bytes:
        if len(part) == 1:
            return hashlib.sha256(b"\0" + part[0]).digest()
        half = 1
        while half * 2 < len(part):
            half *= 2
        return hashlib.sha256(b"\1" + root(part[:half]) + root(part[half:])).digest()

    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    assert tree.root() == root(leaves)
    assert MerkleTree().root() == hashlib.sha256(b"").digest()


@all_cases("name", sorted(EVENT_TYPES))
def test_somebody_has_thought_about_every_field_whether_it_may_tell_of_a_person(name: str) -> None:
    fields = set(EVENT_TYPES[name].__struct_fields__)
    assert fields <= FACT_FIELDS | PERSONAL_FIELDS, (
        f"put {sorted(fields - FACT_FIELDS - PERSONAL_FIELDS)} into a list of ledger/entry_fields.py"
    )
    assert not FACT_FIELDS & PERSONAL_FIELDS


def test_what_tells_of_a_person_is_not_among_the_facts() -> None:
    noise = PluginStdoutNoise("notes", "alice@example.org logged in")
    one = prepare_entry("evt_1", EntryDraft(noise, "default", AT, principal="alice"), SystemRandom())
    assert one.facts == b'{"name":"notes"}'
    assert one.plugin == "notes"
    assert json.loads(one.personal or b"") == {"line": "alice@example.org logged in", "principal": "alice"}
