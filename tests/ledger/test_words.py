"""Every entry is told in a sentence, whatever is known of it."""

from __future__ import annotations

import dataclasses
import re
import string
from typing import Any, cast

import pytest
from tests.ledger.chains import RANDOM

from paddock.core.clock import SystemClock
from paddock.core.events import EVENT_TYPES
from paddock.ledger.chain import Sealed
from paddock.ledger.entry import Draft, Entry, prepared, read
from paddock.ledger.went_wrong import went_wrong
from paddock.ledger.words.phrase import Told, lasting, sized
from paddock.ledger.words.sentence import GROUPS, WORDS, label_of, mood_of, sentence_of, types_of

CLOCK = SystemClock()
VALUES: dict[str, Any] = {"str": "x", "bool": False, "int": 3, "float": 1.5, "tuple[str, ...]": ("a", "b")}


def entry(kind: str, **known: Any) -> Entry:
    """An entry of a type with the kinds of values that it has, `known` instead of some."""
    event = EVENT_TYPES[kind]
    facts: dict[str, Any] = {}
    for field in dataclasses.fields(cast("Any", event)):
        named = str(field.type).removesuffix(" | None")
        facts[field.name] = VALUES.get(named, {"a": 1} if "Mapping" in named else "y" if "Literal" in named else ())
    row = prepared("evt_1", Draft(event(**(facts | known)), "default", CLOCK.now()), RANDOM)
    return read(_row(row))


def _row(row: Any) -> Sealed:
    told = row._asdict()
    told["facts"], told["personal"] = row.facts.decode(), row.personal and row.personal.decode()
    return Sealed(tenant="default", seq=1, hash=b"", **told)


def test_there_are_words_for_every_type_of_entry_and_for_no_other() -> None:
    assert set(WORDS) == set(EVENT_TYPES)
    assert sum(len(group.words) for group in GROUPS) == len(WORDS), "a type is in one group"
    for kind, words in WORDS.items():
        if isinstance(words.say, str):
            fields = {name.partition("~")[0] for _, name, *_ in string.Formatter().parse(words.say) if name}
            known = {field.name for field in dataclasses.fields(cast("Any", EVENT_TYPES[kind]))}
            assert fields <= known | {"who", "what"}, kind


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_an_entry_is_a_sentence_with_all_of_it_known_and_with_nothing(kind: str) -> None:
    for told in (entry(kind), Entry("default", 1, "e", "2030", kind, None, None, None, {}, {}, True, "")):
        sentence = sentence_of(told)
        assert re.fullmatch(r"\S.*\S", sentence), sentence
        assert "None" not in sentence
        assert "{" not in sentence
        assert "  " not in sentence
        assert label_of(kind)[0].isupper()


def test_a_call_is_told_by_what_became_of_it() -> None:
    worked = entry("call.ended", name="notes", method="add", status="succeeded", success=True, duration_ms=12.3,
                   replay_of=None)  # fmt: skip
    denied = entry("call.ended", name="notes", method="add", status="denied", error_code=None, replay_of=None)
    waits = entry("call.ended", name="notes", method="add", status="pending_approval", replay_of=None)

    assert sentence_of(worked._replace(personal={"principal": "user:ann"})) == (
        "user:ann called notes.add: it worked in 12 ms"
    )
    assert sentence_of(denied._replace(personal={})) == "Somebody called notes.add: the rules did not allow it"
    assert [mood_of(one) for one in (worked, denied, waits)] == ["good", "bad", "busy"]
    assert went_wrong(denied.type, denied.facts)


def test_what_a_plugin_wrote_is_cut_and_what_somebody_else_put_there_is_only_named() -> None:
    noise = entry("plugin.stdout_noise", line="z" * 200)._replace(personal={"line": "z" * 5_000})
    forged = entry("plugin.crashed")._replace(facts={"unreadable": "["})
    stranger = entry("plugin.crashed")._replace(type="plugin.unheard_of")

    assert len(sentence_of(noise)) < 400
    assert sentence_of(forged) == "plugin.crashed was recorded"
    assert sentence_of(stranger) == "plugin.unheard_of was recorded"
    assert types_of("nothing") == ()


def test_times_and_sizes_are_told_as_people_say_them() -> None:
    assert [lasting(one) for one in (0.42, 12.3, 3_400, 310_000, 7_500_000)] == [
        "0.4 ms", "12 ms", "3.4 s", "5 min 10 s", "2 h 5 min",
    ]  # fmt: skip
    assert [sized(one) for one in (1, 2, 2_048, 3_565_158)] == ["1 byte", "2 bytes", "2.0 kB", "3.4 MB"]
    assert Told({"until": "2030-01-31T08:00:12"})["until~minute"] == "2030-01-31 08:00"
