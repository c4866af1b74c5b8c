"""Every entry is told in a sentence, whatever is known of it."""

from __future__ import annotations

import re
import string
from inspect import get_annotations
from typing import Any

from tests.ledger.chains import RANDOM

from fixtures.all_cases import all_cases
from paddock.core.clock import SystemClock
from paddock.core.events.index import EVENT_TYPES
from paddock.ledger.entry import EntryDraft, LedgerEntry, prepare_entry, read_entry
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.failures import is_failure
from paddock.ledger.text.entry_text import (
    ENTRY_GROUPS,
    SENTENCE_TEMPLATES,
    entry_sentence,
    entry_severity,
    group_types,
    type_label,
)
from paddock.ledger.text.sentence_template import EntryValues, duration_text, size_text

CLOCK = SystemClock()
VALUES: dict[str, Any] = {"str": "x", "bool": False, "int": 3, "float": 1.5, "tuple[str, ...]": ("a", "b")}


def entry(kind: str, **known: Any) -> LedgerEntry:
    """An entry of a type with the kinds of values that it has, `known` instead of some."""
    event = EVENT_TYPES[kind]
    facts: dict[str, Any] = {}
    for name, kind_of_value in get_annotations(event).items():
        named = str(kind_of_value).removesuffix(" | None")
        facts[name] = VALUES.get(named, {"a": 1} if "Mapping" in named else "y" if "Literal" in named else ())
    row = prepare_entry("evt_1", EntryDraft(event(**(facts | known)), "default", CLOCK.now()), RANDOM)
    return read_entry(_row(row))


def _row(row: Any) -> SealedEntry:
    told = row._asdict()
    told["facts"], told["personal"] = row.facts.decode(), row.personal and row.personal.decode()
    del told["stored"]
    return SealedEntry(tenant="default", seq=1, hash=b"", **told)


def test_there_are_words_for_every_type_of_entry_and_for_no_other() -> None:
    assert set(SENTENCE_TEMPLATES) == set(EVENT_TYPES)
    assert sum(len(group.templates) for group in ENTRY_GROUPS) == len(SENTENCE_TEMPLATES), "a type is in one group"
    for kind, words in SENTENCE_TEMPLATES.items():
        if isinstance(words.template, str):
            fields = {name.partition("~")[0] for _, name, *_ in string.Formatter().parse(words.template) if name}
            known = set(EVENT_TYPES[kind].__struct_fields__)
            assert fields <= known | {"who", "what"}, kind


@all_cases("kind", sorted(EVENT_TYPES))
def test_an_entry_is_a_sentence_with_all_of_it_known_and_with_nothing(kind: str) -> None:
    for told in (entry(kind), LedgerEntry("default", 1, "e", "2030", kind, None, None, None, {}, {}, True, "")):
        sentence = entry_sentence(told)
        assert re.fullmatch(r"\S.*\S", sentence), sentence
        assert "None" not in sentence
        assert "{" not in sentence
        assert "  " not in sentence
        assert type_label(kind)[0].isupper()


def test_a_call_is_told_by_what_became_of_it() -> None:
    worked = entry("call.ended", name="notes", method="add", status="succeeded", success=True, duration_ms=12.3,
                   replay_of=None)  # fmt: skip
    denied = entry("call.ended", name="notes", method="add", status="denied", error_code=None, replay_of=None)
    waits = entry("call.ended", name="notes", method="add", status="pending_approval", replay_of=None)

    assert entry_sentence(worked._replace(personal={"principal": "user:ann"})) == (
        "user:ann called notes.add: it worked in 12 ms"
    )
    assert (
        entry_sentence(denied._replace(personal={})) == "An unknown person called notes.add: the rules did not allow it"
    )
    assert [entry_severity(one) for one in (worked, denied, waits)] == ["good", "bad", "busy"]
    assert is_failure(denied.type, denied.facts)


def test_what_a_plugin_wrote_is_cut_and_what_somebody_else_put_there_is_only_named() -> None:
    noise = entry("plugin.stdout_noise", line="z" * 200)._replace(personal={"line": "z" * 5_000})
    forged = entry("plugin.crashed")._replace(facts={"unreadable": "["})
    stranger = entry("plugin.crashed")._replace(type="plugin.unheard_of")

    assert len(entry_sentence(noise)) < 400
    assert entry_sentence(forged) == "plugin.crashed was recorded"
    assert entry_sentence(stranger) == "plugin.unheard_of was recorded"
    assert group_types("nothing") == ()


def test_times_and_sizes_are_told_as_people_say_them() -> None:
    assert [duration_text(one) for one in (0.42, 12.3, 3_400, 310_000, 7_500_000)] == [
        "0.4 ms", "12 ms", "3.4 s", "5 min 10 s", "2 h 5 min",
    ]  # fmt: skip
    assert [size_text(one) for one in (1, 2, 2_048, 3_565_158)] == ["1 byte", "2 bytes", "2.0 kB", "3.4 MB"]
    assert EntryValues({"until": "2030-01-31T08:00:12"})["until~minute"] == "2030-01-31 08:00"
    assert [EntryValues({"n": one})["n~row"] for one in (1, 1_234_567)] == ["1 row", "1,234,567 rows"]
