"""Which values of knobs fit a version of a plugin, and what a turn makes of those that are kept."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.tuner import CONFIG_SCHEMA, KNOBS
from paddock.config.knob_values import KnobUpdate, apply_knob_update, fit_knob_values
from paddock.core.errors import Invalid
from paddock.manifest.model import Manifest
from paddock.manifest.read import read_stored
from paddock.manifest.syntax.document import ParsedDocument


def manifest(**fields: Any) -> Manifest:
    about = {
        "paddock": 1,
        "name": "tuner",
        "version": "1.0.0",
        "description": "Is tuned",
        "runtime": {"command": ["true"]},
        "capabilities": [],
        "tools": [],
        "config_schema": CONFIG_SCHEMA,
        "knobs": KNOBS,
    }
    return read_stored(ParsedDocument("tuner", about | fields))


def mistakes(about: Manifest, kept: dict[str, Any], turn: KnobUpdate) -> list[str]:
    with pytest.raises(Invalid) as refused:
        apply_knob_update(about, kept, turn)
    return [problem.path for problem in refused.value.problems]


def test_two_knobs_that_write_one_field_leave_it_one_value() -> None:
    about = manifest(knobs={**KNOBS, "rounds": {**KNOBS["turns"], "max": 10}})

    assert apply_knob_update(about, {"turns": 4}, KnobUpdate({"rounds": 5})) == {"rounds": 5}
    assert apply_knob_update(about, {"turns": 4}, KnobUpdate({}, ("rounds",))) == {}
    assert apply_knob_update(about, {}, KnobUpdate({"turns": 5, "rounds": 5})) == {"rounds": 5, "turns": 5}
    assert mistakes(about, {}, KnobUpdate({"turns": 4, "rounds": 5})) == ["knobs.rounds"]
    both = fit_knob_values(about, {"rounds": 5, "turns": 4})
    assert (both.values, [one.knob for one in both.left_out]) == ({"rounds": 5}, ["turns"])


def test_null_is_the_default_again_unless_it_is_another_value_that_the_knob_takes() -> None:
    none_at_first = {**KNOBS["model"], "default": None}

    assert apply_knob_update(manifest(), {"model": "deep", "turns": 4}, KnobUpdate({"model": None, "turns": None})) == {
        "model": None
    }
    assert (
        apply_knob_update(manifest(knobs={"model": none_at_first}), {"model": "deep"}, KnobUpdate({"model": None}))
        == {}
    )


def test_what_no_version_takes_any_more_is_forgotten_when_somebody_says_so() -> None:
    kept = {"gone": 1, "turns": 4}

    assert apply_knob_update(manifest(), kept, KnobUpdate({"turns": 5})) == {"gone": 1, "turns": 5}
    assert apply_knob_update(manifest(), kept, KnobUpdate({}, ("gone",))) == {"turns": 4}
    assert apply_knob_update(manifest(), kept, KnobUpdate({"gone": None})) == {"turns": 4}
    assert mistakes(manifest(), kept, KnobUpdate({"gone": 2})) == ["knobs.gone"]


def test_values_that_fit_alone_and_not_together_are_refused_and_left_out_together() -> None:
    quiet = {"not": {"properties": {"loud": {"const": True}, "turns": {"minimum": 10}}, "required": ["loud", "turns"]}}
    about = manifest(config_schema={**CONFIG_SCHEMA, **quiet})
    kept = {"colour": "red", "loud": True, "turns": 12}

    assert mistakes(about, {"loud": True}, KnobUpdate({"turns": 12})) == ["config"]
    fit = fit_knob_values(about, kept)
    assert fit.values == {}
    assert [one.knob for one in fit.left_out] == sorted(kept)


def test_a_field_that_must_be_set_is_asked_for_where_a_turn_would_leave_it_out() -> None:
    bare = {**CONFIG_SCHEMA, "properties": {**CONFIG_SCHEMA["properties"], "turns": {"type": "integer"}}}
    about = manifest(config_schema={**bare, "required": ["turns"]})

    assert apply_knob_update(about, {}, KnobUpdate({"turns": 4})) == {"turns": 4}
    assert mistakes(about, {}, KnobUpdate({"loud": True})) == ["config.turns"]
    assert mistakes(about, {}, KnobUpdate({"turns": 40})) == ["knobs.turns"]
